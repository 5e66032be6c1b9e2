// Measures what the engine promises and prints one JSON object:
//   record_over_plain  seconds of a pass that records all measurements over those of the plain
//   forward pass of the same
//                      engine, side by side: the median over interleaved pairs (limit 1.3)
//   memory             peak resident bytes of a fresh process that records one long prompt, by its
//   tokens; the largest
//                      has a limit and growth must be linear
// Called by run.sh and by hand. Exit code 1 when a limit is broken, 2 for wrong arguments.

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "worker/engine/engine.h"

namespace headcount::engine {
namespace {

using Json = nlohmann::json;

constexpr double kRecordLimit = 1.3;
constexpr int64_t kMemoryLimitTokens = 4096;
constexpr int64_t kMemoryLimitBytes = int64_t{2} << 30;

struct Arguments {
  std::string model;
  int tokens = 600;
  int pairs = 15;
  int threads = 2;
  int memory_tokens = 0;  // child process: measure this one and print it
};

// Token ids of no meaning, the same in every run.
std::vector<int32_t> Prompt(int tokens, int64_t vocabulary) {
  std::vector<int32_t> ids;
  uint32_t state = 1;
  for (int i = 0; i < tokens; ++i) {
    state = state * 1664525 + 1013904223;
    ids.push_back(static_cast<int32_t>(state % static_cast<uint64_t>(vocabulary)));
  }
  return ids;
}

std::unique_ptr<Engine> Load(const Arguments& arguments) {
  auto engine = Engine::Load(arguments.model, DType::kFloat32, {}, {.threads = arguments.threads});
  if (!engine.ok()) {
    std::cerr << engine.status() << "\n";
    std::exit(2);
  }
  return *std::move(engine);
}

Unit OnePrompt(const std::vector<int32_t>& prompt, const std::vector<int32_t>& targets,
               bool record) {
  Unit unit;
  unit.rows.push_back({.suffix = prompt, .targets = targets, .scored = 1});
  unit.rules.emplace_back();
  unit.record.measurements = record;
  return unit;
}

struct Cost {
  double wall = 0;
  double cpu = 0;  // of all threads: says the same on a machine whose cores are shared
};

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Cost Measure(const std::function<absl::Status()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu = CpuSeconds();
  const absl::Status status = work();
  if (!status.ok()) {
    std::cerr << status << "\n";
    std::exit(2);
  }
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          CpuSeconds() - cpu};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Json RecordOverPlain(const Arguments& arguments) {
  const auto engine = Load(arguments);
  const auto prompt = Prompt(arguments.tokens, engine->config().vocab_size);
  const std::vector<int32_t> targets = {1, 2, 3, 4};
  const Unit recorded = OnePrompt(prompt, targets, true);
  const Unit plain = OnePrompt(prompt, targets, false);
  const CancelFlag cancel = false;
  const auto run = [&] { return engine->Run(recorded, cancel, nullptr).status(); };
  const auto run_plain = [&] { return engine->RunPlain(plain, cancel).status(); };
  Measure(run);  // first use: Gram matrices, rotary tables, the allocator
  Measure(run_plain);
  std::vector<double> wall_ratios, cpu_ratios, record_seconds, plain_seconds, plain_cpu;
  for (int i = 0; i < arguments.pairs; ++i) {
    // Which one goes first alternates, so that neither always follows the other.
    Cost record;
    if (i % 2 == 0) record = Measure(run);
    const Cost plain_cost = Measure(run_plain);
    if (i % 2 == 1) record = Measure(run);
    record_seconds.push_back(record.wall);
    plain_seconds.push_back(plain_cost.wall);
    plain_cpu.push_back(plain_cost.cpu);
    wall_ratios.push_back(record.wall / plain_cost.wall);
    cpu_ratios.push_back(record.cpu / plain_cost.cpu);
  }
  const double ratio = Median(wall_ratios);
  return {{"tokens", arguments.tokens},
          {"threads", arguments.threads},
          {"pairs", arguments.pairs},
          {"record_over_plain", ratio},
          {"record_over_plain_cpu_time", Median(cpu_ratios)},
          {"record_seconds", Median(record_seconds)},
          {"plain_seconds", Median(plain_seconds)},
          {"plain_cpu_seconds", Median(plain_cpu)},
          {"limit", kRecordLimit},
          {"holds", ratio <= kRecordLimit}};
}

int64_t PeakResidentBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// In the child process.
void PrintMemory(const Arguments& arguments) {
  const auto engine = Load(arguments);
  const int64_t loaded = PeakResidentBytes();
  const auto prompt = Prompt(arguments.memory_tokens, engine->config().vocab_size);
  const std::vector<int32_t> targets = {1, 2, 3, 4};
  const CancelFlag cancel = false;
  const Unit unit = OnePrompt(prompt, targets, true);
  Measure([&] { return engine->Run(unit, cancel, nullptr).status(); });
  std::cout << Json{{"tokens", arguments.memory_tokens},
                    {"loaded_bytes", loaded},
                    {"peak_bytes", PeakResidentBytes()}}
            << "\n";
}

// A fresh process for each length: a peak is never given back.
Json MemoryOf(const Arguments& arguments, const char* program, int tokens) {
  const std::string command = std::string(program) + " --model '" + arguments.model +
                              "' --threads " + std::to_string(arguments.threads) +
                              " --memory-tokens " + std::to_string(tokens);
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  while (pipe != nullptr && fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  if (pipe == nullptr || pclose(pipe) != 0) {
    std::cerr << "failed: " << command << "\n";
    std::exit(2);
  }
  return Json::parse(text);
}

Json Memory(const Arguments& arguments, const char* program) {
  Json points = Json::array();
  for (int tokens : {1024, 2048, 4096, 8192})
    points.push_back(MemoryOf(arguments, program, tokens));
  const auto peak = [&](size_t i) { return points[i]["peak_bytes"].get<int64_t>(); };
  // Between 2,048 and 8,192 tokens linear growth doubles the step; growth with the square would
  // make it 4 times.
  const double growth = static_cast<double>(peak(3) - peak(2)) /
                        static_cast<double>(std::max<int64_t>(1, peak(2) - peak(1)));
  return {{"points", points},
          {"bytes_a_token", static_cast<double>(peak(3) - peak(2)) / 4096},
          {"growth_4096_8192_over_2048_4096", growth},
          {"limit_tokens", kMemoryLimitTokens},
          {"limit_bytes", kMemoryLimitBytes},
          {"holds", peak(2) < kMemoryLimitBytes && growth < 3}};
}

[[noreturn]] void Usage(int code) {
  (code == 0 ? std::cout : std::cerr)
      << "usage: engine_bench --model FOLDER [--tokens 600] [--pairs 15] [--threads 2]\n"
         "Prints JSON: cost of recording over the plain pass, and peak memory by prompt length.\n";
  std::exit(code);
}

Arguments ParseArguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") Usage(0);
    if (i + 1 >= argc) Usage(2);
    const char* value = argv[++i];
    if (name == "--model") {
      arguments.model = value;
    } else if (name == "--tokens") {
      arguments.tokens = std::atoi(value);
    } else if (name == "--pairs") {
      arguments.pairs = std::atoi(value);
    } else if (name == "--threads") {
      arguments.threads = std::atoi(value);
    } else if (name == "--memory-tokens") {
      arguments.memory_tokens = std::atoi(value);
    } else {
      Usage(2);
    }
  }
  if (arguments.model.empty() || arguments.tokens < 1 || arguments.pairs < 1) Usage(2);
  return arguments;
}

int Main(int argc, char** argv) {
  const Arguments arguments = ParseArguments(argc, argv);
  if (arguments.memory_tokens > 0) {
    PrintMemory(arguments);
    return 0;
  }
  const Json report = {{"model", arguments.model},
                       {"speed", RecordOverPlain(arguments)},
                       {"memory", Memory(arguments, argv[0])}};
  std::cout << report.dump(2) << "\n";
  return report["speed"]["holds"] && report["memory"]["holds"] ? 0 : 1;
}

}  // namespace
}  // namespace headcount::engine

int main(int argc, char** argv) { return headcount::engine::Main(argc, argv); }
