// One number for "the same input gives the same stored numbers". Part of every reuse key and every
// result's provenance; raised whenever a change moves a result (a test over the tiny golden results
// fails when they change without it).

#pragma once

namespace headcount::catalog {

inline constexpr int kNumericsVersion = 1;

}  // namespace headcount::catalog
