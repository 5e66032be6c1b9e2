// See local_workers.h.

#include "server/launch/local_workers.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace headcount::server {
namespace {

// N of "nvidiaN", or -1.
int CudaIndex(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size() || name.size() > 9) return -1;
  const std::string digits = name.substr(kPrefix.size());
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return -1;
  }
  return std::stoi(digits);
}

}  // namespace

std::vector<LocalWorker> LocalWorkers(const Config& config, const std::string& devices) {
  if (config.workers_set) return config.workers;
  // CUDA numbers the devices that are there from 0, whatever their node's number.
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(devices, error), end; !error && it != end;
       it.increment(error)) {
    if (CudaIndex(it->path().filename().string()) >= 0) ++count;
  }
  if (count == 0) return {{"cpu", 0}};
  std::vector<LocalWorker> out;
  for (int i = 0; i < count; ++i) out.push_back({std::string(absl::StrCat("cuda:", i)), 0});
  return out;
}

std::string WorkerId(const std::string& host, const std::string& device) {
  std::string id = absl::StrCat(host, "-", device);
  for (char& c : id) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '_';
    if (!ok) c = '-';
  }
  return id;
}

WorkerCommand CommandFor(const LocalWorker& worker, const LaunchPlace& place) {
  WorkerCommand command;
  command.id = WorkerId(place.host, worker.device);
  command.arguments = {place.program, "--config",    place.config_file, "--server", place.server,
                       "--device",    worker.device, "--worker-id",     command.id};
  if (worker.threads > 0) {
    command.arguments.push_back("--threads");
    command.arguments.push_back(std::to_string(worker.threads));
  }
  if (!place.tasks.empty()) {
    command.arguments.push_back("--tasks");
    command.arguments.push_back(place.tasks);
  }
  command.log = absl::StrCat(place.state_dir, "/logs/", command.id, ".log");
  command.lock = absl::StrCat(place.state_dir, "/workers/", worker.device, ".lock");
  return command;
}

}  // namespace headcount::server
