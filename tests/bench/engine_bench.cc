// The engine as a long-lived process that benchmarks are run in: one JSON command a line on
// standard input, one JSON answer a line on standard output ({"error": text} when it failed), so
// that run.sh can take turns between it and the peers. Prints {"ready": true} once the model is
// loaded. Commands: engine_cases.h, task_prompts.h, and {"case": "memory"} ->
// {"peak_resident_bytes"}.
//
// Exit code 0 at the end of input, 2 for wrong arguments or a model that does not load.

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/bench/cost.h"
#include "tests/bench/engine_cases.h"
#include "tests/bench/task_prompts.h"
#include "worker/engine/engine.h"

namespace headcount::bench {
namespace {

using Json = nlohmann::json;

struct Arguments {
  std::string model;
  engine::Device device;
  engine::DType dtype = engine::DType::kFloat32;
  engine::EngineOptions options = {.threads = 2};
};

[[noreturn]] void Usage(int code) {
  (code == 0 ? std::cout : std::cerr)
      << "usage: engine_bench --model FOLDER [--threads N] [--device cpu|cuda]\n"
         "                    [--dtype float32|bfloat16] [--sharing on|off]\n"
         "Reads benchmark commands as JSON lines; tests/bench/run.sh sends them.\n";
  std::exit(code);
}

Arguments ParseArguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") Usage(0);
    if (i + 1 >= argc) Usage(2);
    if (name == "--model") {
      arguments.model = argv[++i];
    } else if (name == "--threads") {
      arguments.options.threads = std::atoi(argv[++i]);
    } else if (name == "--device") {
      const bool cuda = std::string(argv[++i]) == "cuda";
      arguments.device.kind = cuda ? engine::Device::Kind::kCuda : engine::Device::Kind::kCpu;
    } else if (name == "--dtype") {
      const bool bfloat16 = std::string(argv[++i]) == "bfloat16";
      arguments.dtype = bfloat16 ? engine::DType::kBFloat16 : engine::DType::kFloat32;
    } else if (name == "--sharing") {
      const bool on = std::string(argv[++i]) == "on";
      arguments.options.sharing = {.prefixes = on, .rules = on, .steps = on};
    } else {
      Usage(2);
    }
  }
  if (arguments.model.empty() || arguments.options.threads < 1) Usage(2);
  return arguments;
}

absl::StatusOr<Json> Answer(engine::Engine& engine, const std::string& model,
                            const std::string& line) {
  try {  // the JSON library's exceptions stop here
    const Json command = Json::parse(line);
    const std::string name = command.at("case");
    if (name == "plain" || name == "record" || name == "ablate") return TimePass(engine, command);
    if (name == "generate") return TimeGeneration(engine, command);
    if (name == "thresholds") return Thresholds(engine, command);
    if (name == "encode") return Encode(model, command);
    if (name == "prompts") return TaskPrompts(model, command);
    if (name == "memory") return Json{{"peak_resident_bytes", PeakResidentBytes()}};
    return absl::InvalidArgumentError(absl::StrCat("case: '", name, "' is not known"));
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

int Main(int argc, char** argv) {
  const Arguments arguments = ParseArguments(argc, argv);
  auto engine =
      engine::Engine::Load(arguments.model, arguments.dtype, arguments.device, arguments.options);
  if (!engine.ok()) {
    std::cerr << engine.status() << "\n";
    return 2;
  }
  std::cout << Json{{"ready", true}} << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto answer = Answer(**engine, arguments.model, line);
    std::cout << (answer.ok() ? *answer : Json{{"error", answer.status().ToString()}}) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace headcount::bench

int main(int argc, char** argv) { return headcount::bench::Main(argc, argv); }
