// See worker_main.h.

#include "worker/agent/worker_main.h"

#include <pthread.h>
#include <signal.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/ids.h"
#include "common/base/logging.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "common/hf/tokenizer.h"
#include "common/rpc/channel.h"
#include "common/tasks/task_definition.h"
#include "spdlog/spdlog.h"
#include "worker/agent/agent.h"
#include "worker/agent/device_lock.h"
#include "worker/eval/prepare.h"

namespace headcount::agent {
namespace {

constexpr int kTryLater = 75;  // EX_TEMPFAIL: nothing is wrong with this worker itself

struct Flags {
  std::string server;
  std::string config;
  std::vector<std::string> model_roots;
  std::string tasks;
  std::string device = "cpu";
  int threads = 0;
  std::string worker_id;
  std::string lock;
  std::string log_level;
};

// What stands in errors is enough for a person at a terminal: no payloads.
int Fail(const absl::Status& status, int code = 1) {
  std::cerr << "headcount-worker: " << status.message() << "\n";
  return code;
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--server", flags.server, "host:port of headcountd's workers' listener");
  app.add_option("--config", flags.config, "configuration file, the server's own")
      ->check(CLI::ExistingFile);
  app.add_option("--model-root", flags.model_roots, "folder of models; before those configured");
  app.add_option("--tasks", flags.tasks, "folder of the shipped task files; default: built in");
  app.add_option("--device", flags.device, "cpu or cuda:N")->capture_default_str();
  app.add_option("--threads", flags.threads, "of one CPU operation; 0: all cores")
      ->check(CLI::Range(0, 1024));
  app.add_option("--worker-id", flags.worker_id, "stable id of this place; default: host-device");
  app.add_option("--lock", flags.lock, "lock file; default: STATE_DIR/workers/DEVICE.lock");
  app.add_option("--log-level", flags.log_level, "trace, debug, info, warn, error or off");
  app.set_version_flag("--version", "headcount-worker " HEADCOUNT_VERSION);
  app.footer(
      "Runs units of jobs for one headcountd until SIGTERM. headcountd starts local workers "
      "itself;\nby hand, on another machine with the same models and data:\n\n"
      "  headcount-worker --server gpu1:7434 --config headcount.yaml --device cuda:0\n\n"
      "Exit codes: 0 drained, 1 an error, 75 no server for worker_orphan_exit_seconds or the "
      "device "
      "is in use.");
}

absl::StatusOr<engine::Device> ParseDevice(const std::string& text) {
  if (text == "cpu") return engine::Device{};
  constexpr std::string_view kCuda = "cuda:";
  const std::string index = text.starts_with(kCuda) ? text.substr(kCuda.size()) : "";
  if (index.empty() || index.size() > 3 ||
      index.find_first_not_of("0123456789") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: must be cpu or cuda:N (got \"", text, "\")"));
  }
  return engine::Device{engine::Device::Kind::kCuda, std::stoi(index)};
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

v1::WorkerDevice Describe(const engine::Device& device, const EngineSetup& setup) {
  const bool cpu = device.kind == engine::Device::Kind::kCpu;
  v1::WorkerDevice out;
  out.set_kind(cpu ? "cpu" : "cuda");
  out.set_index(cpu ? 0 : device.index);
  out.set_name(cpu ? CpuName() : absl::StrCat("CUDA device ", device.index));
  out.set_memory_bytes(setup.memory_bytes);
  struct sysinfo info{};
  if (cpu && setup.memory_bytes == 0 && sysinfo(&info) == 0) {
    out.set_memory_bytes(static_cast<int64_t>(info.totalram) * info.mem_unit);
  }
  out.set_threads(setup.threads);
  out.set_host(HostName());
  out.set_pid(getpid());
  return out;
}

std::string DefaultId(const std::string& device) {
  std::string id = HostName() + "-" + device;
  for (char& c : id) {
    if (c == ':') c = '-';
  }
  return id;
}

// Turns SIGTERM and SIGINT into a drain; a second one ends the process at once. The signals must be
// blocked before any thread starts.
class SignalThread {
 public:
  explicit SignalThread(std::function<void()> drain)
      : thread_([this, drain = std::move(drain)] { Wait(drain); }) {}
  ~SignalThread() {
    over_ = true;
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  static sigset_t Block() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    return set;
  }

 private:
  void Wait(const std::function<void()>& drain) {
    const sigset_t set = Block();
    int signal = 0;
    bool asked = false;
    while (sigwait(&set, &signal) == 0 && !over_) {
      if (asked) _exit(128 + signal);
      asked = true;
      spdlog::info("signal {}: handing the work back", signal);
      drain();
    }
  }

  std::atomic<bool> over_ = false;
  std::thread thread_;
};

Preparer MakePreparer(const Config& config, const std::string& shipped_tasks,
                      const WorkerPlace& place, int threads) {
  eval::PrepareInputs inputs;
  inputs.task_folders = {shipped_tasks.empty() ? tasks::ShippedTaskFolder() : shipped_tasks};
  inputs.task_folders.insert(inputs.task_folders.end(), config.task_dirs.begin(),
                             config.task_dirs.end());
  inputs.data = config.data;
  inputs.model_directory = place.model_directory;
  inputs.threads = threads;
  return [inputs](const v1::Workload& workload, const engine::CancelFlag& cancel,
                  const std::function<void(int64_t, int64_t)>& progress) {
    return eval::Prepare(workload, inputs, {progress, &cancel});
  };
}

// Adds the decoder of the model's tokenizer, which is read when a stage first generates.
EngineFactory WithDecoder(EngineFactory engines, const WorkerPlace& place) {
  return [engines = std::move(engines), directory = place.model_directory](
             const std::string& model, v1::DType dtype) -> absl::StatusOr<LoadedEngine> {
    HC_ASSIGN_OR_RETURN(LoadedEngine loaded, engines(model, dtype));
    auto tokenizer = std::make_shared<std::optional<hf::Tokenizer>>();  // of the compute thread
    loaded.decode = [tokenizer, directory, model](
                        std::span<const int32_t> ids,
                        bool skip_special) -> absl::StatusOr<std::string> {
      if (!tokenizer->has_value()) {
        HC_ASSIGN_OR_RETURN(const std::string folder, directory(model));
        HC_ASSIGN_OR_RETURN(hf::Tokenizer read, hf::Tokenizer::Load(folder));
        tokenizer->emplace(std::move(read));
      }
      return (*tokenizer)->DecodeGenerated(ids, skip_special);
    };
    return loaded;
  };
}

// One agent for the device and one for prepare stages, so that the device does not wait while the
// next job's documents are rendered and tokenised. The process ends when the device's lane does.
absl::Status RunLanes(AgentOptions options, v1::WorkerService::StubInterface* stub,
                      const EngineFactory& engines, const Preparer& prepare) {
  AgentOptions beside = options;
  options.lane = v1::SynchronizeRequest::UNITS;
  beside.lane = v1::SynchronizeRequest::PREPARE;
  beside.worker += "/prepare";
  Agent device(std::move(options), stub, engines, prepare, Clock::System());
  Agent preparing(std::move(beside), stub, engines, prepare, Clock::System());
  SignalThread signals([&] {
    device.Drain();
    preparing.Drain();
  });
  absl::Status prepare_end;
  std::thread thread([&] {
    prepare_end = preparing.Run();
    if (!prepare_end.ok()) device.Drain();  // half a worker would leave jobs waiting
  });
  absl::Status end = device.Run();
  preparing.Drain();
  thread.join();
  end.Update(prepare_end);
  return end;
}

absl::StatusOr<Config> ReadConfig(const Flags& flags) {
  HC_ASSIGN_OR_RETURN(Config config, LoadConfig(flags.config));
  std::vector<std::string> roots;
  for (const std::string& root : flags.model_roots) {
    HC_ASSIGN_OR_RETURN(std::string folder,
                        ExpandFolder("--model-root", root, std::filesystem::current_path()));
    roots.push_back(std::move(folder));
  }
  config.model_roots.insert(config.model_roots.begin(), roots.begin(), roots.end());
  if (!flags.server.empty()) config.worker_listen = flags.server;
  if (!flags.log_level.empty()) config.log_level = flags.log_level;
  return config;
}

}  // namespace

absl::StatusOr<ChosenDType> ChooseDType(v1::DType asked, const std::string& checkpoint,
                                        engine::Device::Kind device) {
  const bool cpu = device == engine::Device::Kind::kCpu;
  std::string name = checkpoint.empty() ? "float32" : checkpoint;
  if (asked == v1::DTYPE_FLOAT32) name = "float32";
  if (asked == v1::DTYPE_BFLOAT16) name = "bfloat16";
  if (asked == v1::DTYPE_FLOAT16) name = "float16";
  if (name == "float16" && cpu && asked == v1::DTYPE_UNSPECIFIED) name = "float32";
  if (name == "float32") return ChosenDType{engine::DType::kFloat32, name};
  if (name == "bfloat16") return ChosenDType{engine::DType::kBFloat16, name};
  return WithReason(absl::UnimplementedError(absl::StrCat(
                        "workload.dtype: ", name, " is not served; allowed: float32, bfloat16")),
                    "DTYPE_NOT_SERVED");
}

int WorkerMain(int argc, char** argv,
               const std::function<absl::StatusOr<EngineSetup>(const WorkerPlace&)>& make_engines) {
  SignalThread::Block();
  Flags flags;
  CLI::App app("headcount-worker: runs a model for headcountd, one process a device",
               "headcount-worker");
  AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);

  auto config = ReadConfig(flags);
  if (!config.ok()) return Fail(config.status());
  if (auto status = InitLogging("headcount-worker", config->log_level); !status.ok()) {
    return Fail(status);
  }
  WorkerPlace place;
  auto device = ParseDevice(flags.device);
  if (!device.ok()) return Fail(device.status());
  place.device = *device;
  place.threads = flags.threads;
  place.model_directory = [config = *config](const std::string& model) {
    return FindModelDirectory(config, model);
  };
  if (flags.lock.empty()) {
    flags.lock = absl::StrCat(config->state_dir, "/workers/", flags.device, ".lock");
  }
  const auto lock = DeviceLock::Take(flags.lock);
  if (!lock.ok()) return Fail(lock.status(), kTryLater);
  auto setup = make_engines(place);
  if (!setup.ok()) return Fail(setup.status());

  AgentOptions options;
  options.worker = flags.worker_id.empty() ? DefaultId(flags.device) : flags.worker_id;
  options.instance = IdGenerator::System().Uuid();
  options.version = HEADCOUNT_VERSION;
  options.device = Describe(place.device, *setup);
  options.orphan_exit = config->worker_orphan_exit;
  const auto channel = rpc::MakeChannel(config->worker_listen);
  const auto stub = v1::WorkerService::NewStub(channel);
  spdlog::info("on {} for {}", flags.device, config->worker_listen);
  const absl::Status status =
      RunLanes(std::move(options), stub.get(), WithDecoder(setup->engines, place),
               MakePreparer(*config, flags.tasks, place, setup->threads));
  if (status.ok()) return 0;
  spdlog::error("{}", status.ToString());
  return absl::IsDeadlineExceeded(status) ? kTryLater : 1;
}

}  // namespace headcount::agent
