// The program headcount-worker but for its engine: flags, configuration, lock file, signals. The
// program and its twin with the fake engine (tests/fault) differ in the factory they pass.
//
// Exit codes: 0 drained (SIGTERM, SIGINT or the server's wish); 1 an error, said on stderr; 75 no
// server for worker_orphan_exit, or the device is in use; CLI11's for wrong flags.

#pragma once

#include <functional>
#include <string>

#include "worker/agent/task_runner.h"

namespace headcount::agent {

struct WorkerPlace {
  engine::Device device;
  int threads = 0;  // as asked for; 0: the library's own choice
  std::function<absl::StatusOr<std::string>(const std::string& model)> model_directory;
};

struct EngineSetup {
  EngineFactory engines;
  int threads = 0;           // that CPU work really uses
  int64_t memory_bytes = 0;  // of the device; 0: unknown
};

int WorkerMain(int argc, char** argv,
               const std::function<absl::StatusOr<EngineSetup>(const WorkerPlace&)>& make_engines);

// dtype as the workload asks, else the checkpoint's; float16 is read as float32 on a CPU and
// refused elsewhere.
struct ChosenDType {
  engine::DType dtype;
  std::string name;
};
absl::StatusOr<ChosenDType> ChooseDType(v1::DType asked, const std::string& checkpoint,
                                        engine::Device::Kind device);

}  // namespace headcount::agent
