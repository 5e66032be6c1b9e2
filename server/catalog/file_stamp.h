// What tells whether a file changed since it was read: size, inode and times. Caches of the
// catalogue are keyed by it, so that a model or data set that is replaced under a running server is
// read again. Thread-safe, no errors: a file that is not there has the empty stamp.

#pragma once

#include <string>
#include <vector>

namespace headcount::server {

std::string FileStamp(const std::string& path);
std::string FileStamps(const std::vector<std::string>& paths);

// Files directly in `folder`, by name.
std::vector<std::string> ListFiles(const std::string& folder);

}  // namespace headcount::server
