// The flags that say which model runs over which samples, shared by all kinds of `submit`.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/spec.pb.h"

namespace headcount::cli {

struct WorkloadFlags {
  std::string model;
  std::string task;
  std::vector<std::string> subtasks;
  int limit = 0;
  int num_fewshot = -1;
  std::string chat = "plain";
  std::string bos = "harness";
  std::string split;
  std::string system_instruction;
  std::string dtype = "auto";
  std::string requests;              // file
  std::vector<std::string> prompts;  // texts, of a probe
  bool fresh = false;
  int max_new_tokens = 0;

  void AddTo(CLI::App* command);
  // --prompt beside the others, for what needs no answers.
  void AddPromptsTo(CLI::App* command);
  // Reads the requests file where one is named. INVALID_ARGUMENT with file and line, NOT_FOUND for
  // the file.
  absl::StatusOr<v1::Workload> ToWorkload() const;
};

// --layers and --exclude-layers.
struct LayerFlags {
  std::string include;
  std::string exclude;

  void AddTo(CLI::App* command);
  absl::StatusOr<v1::LayerSelection> ToLayers() const;
};

}  // namespace headcount::cli
