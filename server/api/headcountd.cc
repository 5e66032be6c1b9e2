// The program headcountd: reads its configuration, opens the store, serves clients and workers,
// keeps the local workers running, and stops in order on SIGTERM or SIGINT.

#include <limits.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/logging.h"
#include "common/base/status_macros.h"
#include "common/rpc/library_logs.h"
#include "common/tasks/task_definition.h"
#include "server/api/endpoints_file.h"
#include "server/api/headcountd_flags.h"
#include "server/api/server.h"
#include "server/api/version.h"
#include "server/launch/local_workers.h"
#include "server/launch/process_launcher.h"
#include "server/store/sqlite_job_store.h"

namespace headcount::server {
namespace {

namespace fs = std::filesystem;

constexpr int kExitConfig = 2;
constexpr int kExitStore = 3;
// Together under the 30 s that a service manager waits.
constexpr auto kWorkerGrace = std::chrono::seconds(15);
constexpr auto kCallGrace = std::chrono::seconds(5);

absl::Status MakeFolders(const std::string& state_dir) {
  for (const char* name : {"", "/chunks", "/workers", "/logs"}) {
    std::error_code error;
    fs::create_directories(state_dir + name, error);
    if (error) {
      return absl::FailedPreconditionError(
          absl::StrCat("state_dir: cannot create ", state_dir, name, ": ", error.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ServerParts> OpenStore(const Config& config) {
  HC_RETURN_IF_ERROR(MakeFolders(config.state_dir));
  ServerParts parts;
  HC_ASSIGN_OR_RETURN(
      parts.jobs, store::SqliteJobStore::Open(config.state_dir + "/headcount.db", Clock::System()));
  HC_ASSIGN_OR_RETURN(parts.artifacts,
                      store::ArtifactStore::OpenFolder(config.state_dir + "/chunks"));
  parts.authoriser = std::make_unique<SingleTenantAuthoriser>();
  return parts;
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

std::string BesideThisProgram(const std::string& name) {
  std::error_code error;
  return (fs::read_symlink("/proc/self/exe", error).parent_path() / name).string();
}

// A worker on this machine connects to an address that listens on all interfaces by loopback.
std::string ForLocalWorkers(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  if (host == "0.0.0.0") return "127.0.0.1" + address.substr(colon);
  if (host == "[::]") return "[::1]" + address.substr(colon);
  return address;
}

absl::StatusOr<std::vector<WorkerCommand>> WorkerCommands(const Config& config,
                                                          const std::string& tasks,
                                                          const Endpoints& endpoints) {
  LaunchPlace place;
  place.host = HostName();
  place.program =
      config.worker_program.empty() ? BesideThisProgram("headcount-worker") : config.worker_program;
  place.config_file = config.state_dir + "/workers/config.yaml";
  place.server = ForLocalWorkers(endpoints.worker_listen);
  place.state_dir = config.state_dir;
  place.tasks = tasks;
  // With the flags of this server in it.
  HC_RETURN_IF_ERROR(WriteFileDurably(place.config_file, ConfigToYaml(config)));
  std::vector<WorkerCommand> commands;
  for (const LocalWorker& worker : LocalWorkers(config)) {
    commands.push_back(CommandFor(worker, place));
  }
  return commands;
}

std::unique_ptr<ProcessLauncher> MakeLauncher(std::vector<WorkerCommand> commands,
                                              queue::Dispatcher& dispatcher) {
  ProcessLauncher::Events events;
  events.died = [&dispatcher](const std::string& id, const std::string& detail) {
    const absl::Status status = dispatcher.WorkerDied(id, "", detail);
    if (!status.ok()) spdlog::warn("worker {}: freeing its lease: {}", id, status.ToString());
  };
  events.drained = [&dispatcher](const std::string& id) {
    for (const v1::WorkerInfo& worker : dispatcher.Workers()) {
      if (worker.worker() == id) return worker.state() == "draining";
    }
    return false;
  };
  return std::make_unique<ProcessLauncher>(std::move(commands), Clock::System(), events);
}

int Refuse(const absl::Status& status, int code) {
  std::fprintf(stderr, "headcountd: %s\n", std::string(status.message()).c_str());
  return code;
}

int Serve(const Invocation& invocation, const sigset_t& stop_signals) {
  const Config& config = invocation.config;
  absl::StatusOr<ServerParts> parts = OpenStore(config);
  if (!parts.ok()) return Refuse(parts.status(), kExitStore);
  parts->shipped_tasks = invocation.tasks.empty() ? tasks::ShippedTaskFolder() : invocation.tasks;
  auto server = HeadcountServer::Start(config, *std::move(parts));
  if (!server.ok()) {
    const bool address = server.status().code() == absl::StatusCode::kUnavailable;
    return Refuse(server.status(), address ? kExitConfig : kExitStore);
  }
  auto commands = WorkerCommands(config, invocation.tasks, (*server)->endpoints());
  if (!commands.ok()) return Refuse(commands.status(), kExitConfig);
  auto launcher = MakeLauncher(*std::move(commands), (*server)->dispatcher());
  launcher->Start();
  const Endpoints& endpoints = (*server)->endpoints();
  if (absl::Status status = WriteEndpoints(config.state_dir, endpoints); !status.ok()) {
    launcher->Stop(kWorkerGrace);
    return Refuse(status, kExitConfig);
  }
  spdlog::info("headcountd {} serves clients on {}, workers on {}, metrics on {}; state in {}",
               kVersion, endpoints.listen, endpoints.worker_listen,
               endpoints.metrics_listen.empty() ? "no port" : endpoints.metrics_listen,
               config.state_dir);

  int signal = 0;
  sigwait(&stop_signals, &signal);
  spdlog::info("stopping on {}", strsignal(signal));
  // Workers first, while they can still hand back their tasks.
  launcher->Stop(kWorkerGrace);
  (*server)->Stop(kCallGrace);
  spdlog::info("stopped");
  return 0;
}

int Main(int argc, char** argv) {
  // Before any thread exists: all of them inherit it, so that sigwait alone gets these.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGTERM);
  sigaddset(&stop_signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  const absl::StatusOr<Invocation> invocation = ParseFlags(argc, argv);
  if (!invocation.ok()) return Refuse(invocation.status(), kExitConfig);
  if (invocation->exit) return *invocation->exit;
  if (absl::Status status = InitLogging("headcountd", invocation->config.log_level); !status.ok()) {
    return Refuse(status, kExitConfig);
  }
  rpc::RouteLibraryLogs();
  return Serve(*invocation, stop_signals);
}

}  // namespace
}  // namespace headcount::server

int main(int argc, char** argv) { return headcount::server::Main(argc, argv); }
