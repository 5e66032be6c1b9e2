// The one configuration file, read by headcountd and by the workers it starts
// (deploy/headcount.yaml is the commented example). Folders are named here and only here: clients
// name models and tasks, never paths.
//
// Immutable after Load. Errors: INVALID_ARGUMENT naming file, key, value and limit; an unknown key
// is an error, because a typo in a config is silent otherwise; NOT_FOUND for a missing file.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace headcount {

struct LocalWorker {
  std::string device;  // "cpu", "cuda:0", ...
  int threads = 0;     // of one CPU operation; 0: all cores, shared between the local CPU workers
};

struct Config {
  std::string state_dir = "~/.local/state/headcount";  // database, chunks, worker locks and logs

  std::string listen = "127.0.0.1:7433";          // clients
  std::string worker_listen = "127.0.0.1:7434";   // workers and admin
  std::string metrics_listen = "127.0.0.1:7435";  // Prometheus; empty: none
  bool reflection = true;  // on loopback listeners; elsewhere only with reflection_everywhere
  bool reflection_everywhere = false;

  std::vector<std::string> model_roots;  // folders that hold one folder a model; HF caches too
  std::vector<std::string>
      task_dirs;  // folders of task YAML files; the shipped one is always read first
  std::map<std::string, std::string> data;  // data-set name in a task file -> folder

  std::vector<LocalWorker>
      workers;  // started and restarted by headcountd; empty list: none; unset: one a device found
  bool workers_set = false;
  std::string worker_program;  // empty: headcount-worker beside headcountd

  int samples_per_unit = 32;                                    // 1..256
  int rules_per_unit = 4;                                       // 1..64
  int prompts_per_unit = 4;                                     // 1..256; of stages that generate
  std::chrono::seconds lease = std::chrono::seconds(30);        // 2..3600
  std::chrono::seconds task_target = std::chrono::seconds(20);  // length a lease is cut to, 1..3600
  std::chrono::seconds worker_orphan_exit =
      std::chrono::seconds(600);  // a worker without a server exits after this
  int max_queued_jobs = 10'000;
  int max_rules = 6'000;
  int64_t max_inline_bytes = 2 << 20;
  std::chrono::hours usage_half_life =
      std::chrono::hours(24);  // of accelerator-seconds in the fair share

  std::string log_level = "info";
};

// Reads FILE; "~" and "$NAME" at the start of folder values are expanded, relative ones are taken
// from the file's folder. An empty path gives the defaults, expanded: no file is needed.
absl::StatusOr<Config> LoadConfig(const std::string& path);
absl::StatusOr<Config> ParseConfig(const std::string& yaml, const std::string& where,
                                   const std::string& folder);

// Checks every value as ParseConfig does: for a Config that flags have changed since.
absl::Status CheckConfig(const Config& config);

// One folder value from a flag or a file: expanded, absolute (relative ones from `folder`),
// without ".." left in it. `key` names it in errors.
absl::StatusOr<std::string> ExpandFolder(const std::string& key, const std::string& value,
                                         const std::string& folder);

// The configuration as a file that ParseConfig reads back to the same: what headcountd hands to the
// workers it starts, its flags included.
std::string ConfigToYaml(const Config& config);

// The folder of `model`: the first of `config.model_roots` that holds one of that name, as a folder
// or as a Hugging Face cache keeps it ("ORG/NAME" in models--ORG--NAME/snapshots/COMMIT, the commit
// that refs/main names). INVALID_ARGUMENT unless the name passes CheckModelName; NOT_FOUND
// (MODEL_NOT_FOUND); FAILED_PRECONDITION (MODEL_OUTSIDE_ROOT) for a link that leads out of all
// model roots.
absl::StatusOr<std::string> FindModelDirectory(const Config& config, const std::string& model);

// The names under which FindModelDirectory finds what a root holds, and their folders; links are
// not followed. Folders need not hold a model.
struct ModelFolder {
  std::string name;
  std::string folder;
};
std::vector<ModelFolder> ListModelFolders(const std::string& root);

}  // namespace headcount
