// Reads golden values: a safetensors file as named float arrays, and the folders of golden models.
// For tests; failures to read are test failures with the path in the text.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace headcount::engine {

// F32, I64 and BOOL values, all as float, row-major.
using GoldenTensors = std::map<std::string, std::vector<float>, std::less<>>;

GoldenTensors ReadGoldenTensors(const std::string& path);
nlohmann::json ReadGoldenJson(const std::string& path);

// The models of tests/golden, by folder name: those with values from the authors' code, those with
// values from transformers (make_families.py), and all.
inline const std::vector<std::string> kAuthorsModels = {"tiny-llama", "tiny-llama3", "tiny-qwen2",
                                                        "tiny-olmo2"};
inline const std::vector<std::string> kFamilyModels = {
    "tiny-mistral", "tiny-qwen2window", "tiny-qwen3", "tiny-gptneox",
    "tiny-gpt2",    "tiny-gemma2",      "tiny-gemma3"};
inline const std::vector<std::string> kTinyModels = [] {
  std::vector<std::string> all = kAuthorsModels;
  all.insert(all.end(), kFamilyModels.begin(), kFamilyModels.end());
  return all;
}();
// Those with every mechanism, for the slow tests: what shares, and what is generated.
inline const std::vector<std::string> kMechanismModels = [] {
  std::vector<std::string> some = kAuthorsModels;
  some.insert(some.end(), {"tiny-mistral", "tiny-gpt2", "tiny-gemma2", "tiny-gemma3"});
  return some;
}();
std::string TinyModel(const std::string& name);

// Token ids of the six prompts of a tiny model (2 to 300 tokens).
std::vector<std::vector<int32_t>> TinyPrompts(const std::string& name);

// Folder of a real model as deploy/demo_model.py makes it, or empty where it has not been made.
std::string RealModel(const std::string& name);
// Folder of the golden values of SmolLM2, or empty where the shared data is absent.
std::string SmolLm2Golden();

// Semantics section 8: 1e-4 relative or 1e-5 absolute, NaN where NaN is expected. Empty when
// `actual` holds, else what is wrong where.
std::string CompareScores(const std::vector<float>& actual, const float* expected);

}  // namespace headcount::engine
