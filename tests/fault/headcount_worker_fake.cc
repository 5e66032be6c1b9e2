// headcount-worker-fake: the worker as it is, with the fake engine in the place of the real one, so
// that tests of kills, leases and planning run in moments and without libtorch.

#include <memory>

#include "common/base/status_macros.h"
#include "tests/fault/fake_engine.h"
#include "worker/agent/worker_main.h"

namespace headcount::fault {
namespace {

absl::StatusOr<agent::EngineSetup> MakeEngines(const agent::WorkerPlace& place) {
  agent::EngineSetup setup;
  setup.threads = 1;
  setup.engines = [place](const std::string& model,
                          v1::DType asked) -> absl::StatusOr<agent::LoadedEngine> {
    HC_ASSIGN_OR_RETURN(const std::string directory, place.model_directory(model));
    HC_ASSIGN_OR_RETURN(catalog::ModelConfig config, catalog::ReadModelConfig(directory));
    HC_ASSIGN_OR_RETURN(const agent::ChosenDType dtype,
                        agent::ChooseDType(asked, config.torch_dtype, place.device.kind));
    agent::LoadedEngine loaded;
    loaded.engine =
        std::make_unique<FakeEngine>(std::move(config), FakeEngineOptions::FromEnvironment());
    loaded.dtype = dtype.name;
    return loaded;
  };
  return setup;
}

}  // namespace
}  // namespace headcount::fault

int main(int argc, char** argv) {
  return headcount::agent::WorkerMain(argc, argv, headcount::fault::MakeEngines);
}
