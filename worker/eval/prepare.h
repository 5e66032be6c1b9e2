// The prepare stage as a whole: a workload in, the framed manifest out. Loads the model's tokenizer
// (and chat template) but never the model.
//
// Called by worker/agent through a function it is given. Thread-safe. Errors: those of rendering
// and encoding, which name the field; NOT_FOUND for a task, data folder or model that this machine
// does not have; CANCELLED when told to stop.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/spec.pb.h"

namespace headcount::eval {

// Where this machine keeps what a workload names.
struct PrepareInputs {
  std::vector<std::string> task_folders;    // a later folder overrides an earlier one
  std::map<std::string, std::string> data;  // data-set name -> folder
  std::function<absl::StatusOr<std::string>(const std::string& model)> model_directory;
  int threads = 1;
};

struct PrepareHooks {
  std::function<void(int64_t done, int64_t total)> progress;  // documents; from any thread
  const std::atomic<bool>* cancel = nullptr;
};

absl::StatusOr<std::string> Prepare(const v1::Workload& workload, const PrepareInputs& inputs,
                                    const PrepareHooks& hooks);

}  // namespace headcount::eval
