// <state_dir>/endpoints.json: where a running headcountd listens, for tests and scripts that asked
// for free ports. Pure but for writing the file.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/api/server.h"

namespace headcount::server {

// {"listen": "host:port", "worker_listen": ..., "metrics_listen": ...}
std::string EndpointsJson(const Endpoints& endpoints);

// Written whole or not at all.
absl::Status WriteEndpoints(const std::string& state_dir, const Endpoints& endpoints);

}  // namespace headcount::server
