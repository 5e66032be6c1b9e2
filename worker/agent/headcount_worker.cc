// headcount-worker: the worker with the real engine. See worker_main.h.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/agent/worker_main.h"
#include "worker/engine/engine.h"

namespace headcount::agent {
namespace {

absl::StatusOr<EngineSetup> MakeEngines(const WorkerPlace& place) {
  EngineSetup setup;
  // Said explicitly, because results carry the number and repeat exactly only with the same one.
  setup.threads = place.threads > 0
                      ? place.threads
                      : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  engine::EngineOptions options;
  options.threads = setup.threads;
  setup.engines = [place, options](const std::string& model,
                                   v1::DType asked) -> absl::StatusOr<LoadedEngine> {
    HC_ASSIGN_OR_RETURN(const std::string directory, place.model_directory(model));
    HC_ASSIGN_OR_RETURN(const catalog::ModelConfig config, catalog::ReadModelConfig(directory));
    HC_ASSIGN_OR_RETURN(ChosenDType dtype,
                        ChooseDType(asked, config.torch_dtype, place.device.kind));
    LoadedEngine loaded;
    HC_ASSIGN_OR_RETURN(loaded.engine,
                        engine::Engine::Load(directory, dtype.dtype, place.device, options));
    loaded.dtype = std::move(dtype.name);
    return loaded;
  };
  return setup;
}

}  // namespace
}  // namespace headcount::agent

int main(int argc, char** argv) {
  // OpenMP reads this before main, when its library is loaded. Its threads would spin for
  // milliseconds while they wait, and starve the machine's other processes; if they sleep at once,
  // a quarter of a pass goes into waking them. About 10 microseconds are right for both.
  if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    setenv("GOMP_SPINCOUNT", "1000", 1);
    std::error_code error;
    execv(std::filesystem::read_symlink("/proc/self/exe", error).c_str(), argv);
  }
  return headcount::agent::WorkerMain(argc, argv, headcount::agent::MakeEngines);
}
