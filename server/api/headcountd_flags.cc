// See headcountd_flags.h.

#include "server/api/headcountd_flags.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/api/version.h"

namespace headcount::server {
namespace {

constexpr char kFooter[] =
    "Example: a server for the models in ~/models, with MMLU's files in ~/data/mmlu:\n"
    "  headcountd --model-root ~/models --data mmlu=~/data/mmlu\n"
    "and from another terminal:\n"
    "  headcount submit sweep --model SmolLM2-135M-Instruct --task everyday --scores all "
    "--watch\n\n"
    "deploy/headcount.yaml is a commented configuration file. Exit codes: 0 stopped in order,\n"
    "2 usage, configuration or an address in use, 3 the database was refused.";

struct Flags {
  std::string config;
  std::string state_dir;
  std::string listen;
  std::string worker_listen;
  std::string metrics_listen;
  std::vector<std::string> model_roots;
  std::vector<std::string> data;
  std::string tasks;
  bool no_workers = false;
  std::string log_level;
};

absl::StatusOr<Config> Apply(const Flags& flags) {
  HC_ASSIGN_OR_RETURN(Config config, LoadConfig(flags.config));
  if (!flags.state_dir.empty()) {
    HC_ASSIGN_OR_RETURN(config.state_dir, ExpandFolder("--state-dir", flags.state_dir, ""));
  }
  if (!flags.listen.empty()) config.listen = flags.listen;
  if (!flags.worker_listen.empty()) config.worker_listen = flags.worker_listen;
  if (!flags.metrics_listen.empty()) config.metrics_listen = flags.metrics_listen;
  if (flags.metrics_listen == "none") config.metrics_listen.clear();
  for (const std::string& root : flags.model_roots) {
    HC_ASSIGN_OR_RETURN(std::string folder, ExpandFolder("--model-root", root, ""));
    config.model_roots.push_back(std::move(folder));
  }
  for (const std::string& entry : flags.data) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidField("--data", entry, "must be NAME=FOLDER");
    }
    const std::string name = entry.substr(0, equals);
    HC_ASSIGN_OR_RETURN(config.data[name], ExpandFolder("--data", entry.substr(equals + 1), ""));
  }
  if (flags.no_workers) {
    config.workers.clear();
    config.workers_set = true;
  }
  if (!flags.log_level.empty()) config.log_level = flags.log_level;
  HC_RETURN_IF_ERROR(CheckConfig(config));
  return config;
}

}  // namespace

absl::StatusOr<Invocation> ParseFlags(int argc, const char* const* argv) {
  Flags flags;
  CLI::App app(
      "The headcount server: takes jobs from clients, queues them, gives them to workers.");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("headcountd ") + kVersion);
  app.add_option("--config", flags.config, "configuration file (YAML); flags override it");
  app.add_option("--state-dir", flags.state_dir, "database, chunks, worker locks and logs");
  app.add_option("--listen", flags.listen, "host:port for clients; port 0: a free one");
  app.add_option("--worker-listen", flags.worker_listen, "host:port for workers");
  app.add_option("--metrics-listen", flags.metrics_listen, "host:port for Prometheus, or none");
  app.add_option("--model-root", flags.model_roots,
                 "folder that holds one folder a model; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--data", flags.data, "NAME=FOLDER of a data set; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--tasks", flags.tasks, "folder of the shipped task files");
  app.add_flag("--no-workers", flags.no_workers, "start no workers");
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn, error or off");
  Invocation out;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    out.exit = code == 0 ? 0 : 2;
    return out;
  }
  HC_ASSIGN_OR_RETURN(out.config, Apply(flags));
  if (!flags.tasks.empty()) {
    HC_ASSIGN_OR_RETURN(out.tasks, ExpandFolder("--tasks", flags.tasks, ""));
  }
  return out;
}

}  // namespace headcount::server
