// See endpoints_file.h.

#include "server/api/endpoints_file.h"

#include <nlohmann/json.hpp>

#include "common/base/files.h"

namespace headcount::server {

std::string EndpointsJson(const Endpoints& endpoints) {
  const nlohmann::json json = {{"listen", endpoints.listen},
                               {"worker_listen", endpoints.worker_listen},
                               {"metrics_listen", endpoints.metrics_listen}};
  return json.dump(2) + "\n";
}

absl::Status WriteEndpoints(const std::string& state_dir, const Endpoints& endpoints) {
  return WriteFileDurably(state_dir + "/endpoints.json", EndpointsJson(endpoints));
}

}  // namespace headcount::server
