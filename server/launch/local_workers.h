// Which workers this machine gets and how each is started. Pure but for looking at /dev.

#pragma once

#include <string>
#include <vector>

#include "common/config/config.h"
#include "server/launch/process_launcher.h"

namespace headcount::server {

// The configured workers; without the key one for each CUDA device, or one on the CPU. `devices` is
// the folder that holds nvidia0, nvidia1, ...
std::vector<LocalWorker> LocalWorkers(const Config& config, const std::string& devices = "/dev");

struct LaunchPlace {
  std::string host;         // in worker ids
  std::string program;      // headcount-worker
  std::string config_file;  // what the worker reads
  std::string server;       // host:port of the workers' listener
  std::string state_dir;    // holds workers/ (locks) and logs/
  std::string tasks;        // folder of the shipped task files; empty: the worker's own
};

WorkerCommand CommandFor(const LocalWorker& worker, const LaunchPlace& place);

// "host-cuda-0": a worker's stable id.
std::string WorkerId(const std::string& host, const std::string& device);

}  // namespace headcount::server
