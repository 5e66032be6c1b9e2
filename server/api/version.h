// The version this build carries: CMake's project version. Pure data.

#pragma once

namespace headcount::server {

inline constexpr char kVersion[] = HEADCOUNT_VERSION;

}  // namespace headcount::server
