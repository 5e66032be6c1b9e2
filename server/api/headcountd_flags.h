// The command line of headcountd: flags over the configuration file. Not thread-safe (once, from
// main). Errors: INVALID_ARGUMENT and those of common/config.

#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/config.h"

namespace headcount::server {

struct Invocation {
  Config config;
  std::string tasks;        // folder of the shipped task files; empty: the built-in one
  std::optional<int> exit;  // help, version or a usage error was printed: exit with this
};

absl::StatusOr<Invocation> ParseFlags(int argc, const char* const* argv);

}  // namespace headcount::server
