// Where tests find the third-party data sets and the demo model, which are not part of the project:
// HEADCOUNT_SHARED (default ../shared, tests run in the repository's root) and HEADCOUNT_PREFIX.
// A test whose files are absent is skipped and says which.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace headcount {

inline std::string SharedPath(const std::string& relative) {
  const char* shared = std::getenv("HEADCOUNT_SHARED");
  return std::string(shared != nullptr ? shared : "../shared") + "/" + relative;
}

inline std::string DemoModelPath(const std::string& name) {
  const char* prefix = std::getenv("HEADCOUNT_PREFIX");
  const char* home = std::getenv("HOME");
  const std::string root = prefix != nullptr
                               ? std::string(prefix)
                               : std::string(home != nullptr ? home : "") + "/.cache/headcount";
  return root + "/models/" + name;
}

inline bool Exists(const std::string& path) { return std::filesystem::exists(path); }

}  // namespace headcount

#define HC_SKIP_UNLESS_EXISTS(path) \
  if (!headcount::Exists(path)) GTEST_SKIP() << "NOT TESTED: " << (path) << " is not there"
