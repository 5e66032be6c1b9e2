// Each of the paper's 14 models in tiny form, with the settings of its config.json, gives
// transformers' logits and measurements. Weights are made here by the formula of
// tests/golden/paper_models.py, which made those.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "common/catalog/checkpoint_tensors.h"
#include "engine_testing.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const Json& PaperModels() {
  static const Json models = ReadGoldenJson("tests/golden/paper_models.json");
  return models;
}

// In [-1, 1): the top 24 bits of splitmix64, seeded by the FNV-1a hash of the name.
std::vector<float> Numbers(const std::string& name, size_t count) {
  uint64_t state = 0xCBF29CE484222325u;
  for (const char byte : name) state = (state ^ static_cast<uint8_t>(byte)) * 0x100000001B3u;
  std::vector<float> out(count);
  for (float& value : out) {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    value = static_cast<float>((z ^ (z >> 31)) >> 40) / (1 << 23) - 1;
  }
  return out;
}

void WriteCheckpoint(const fs::path& folder, const Json& config_json) {
  std::ofstream(folder / "config.json") << config_json.dump();
  const auto config = catalog::ReadModelConfig(folder.string());
  ASSERT_TRUE(config.ok()) << config.status();
  Json header;
  std::string data;
  for (const catalog::TensorSource& source : catalog::TensorSources(*config, {})) {
    for (size_t i = 0; i < source.names.size(); ++i) {
      const std::string& name = source.names[i];
      size_t count = 1;
      for (int64_t extent : source.shapes[i]) count *= static_cast<size_t>(extent);
      std::vector<float> values = Numbers(name, count);
      for (float& value : values) value = value / 2 + (name.ends_with("norm.weight") ? 1 : 0);
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
      header[name] = {
          {"dtype", "F32"}, {"shape", source.shapes[i]}, {"data_offsets", {begin, data.size()}}};
    }
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  std::ofstream out(folder / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof size);
  out << text << data;
}

class PaperModel : public ::testing::TestWithParam<int> {};

TEST_P(PaperModel, GivesTransformersNumbers) {
  const Json& model = PaperModels()["models"][static_cast<size_t>(GetParam())];
  SCOPED_TRACE(model["name"].get<std::string>());
  const fs::path folder =
      fs::path(::testing::TempDir()) /
      ("headcount_paper_" + std::to_string(::getpid()) + "_" + std::to_string(GetParam()));
  fs::create_directories(folder);
  WriteCheckpoint(folder, model["config"]);
  const auto engine = LoadOrDie(folder.string());
  fs::remove_all(folder);
  const auto tokens = PaperModels()["token_ids"].get<std::vector<int32_t>>();
  const auto logits = engine->Logits(tokens, Rule{}, 1);
  ASSERT_TRUE(logits.ok()) << logits.status();
  const auto expected = model["last_logits"].get<std::vector<float>>();
  ASSERT_EQ(logits->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR((*logits)[i], expected[i], 2e-4) << i;
  const UnitResult result = RunOrDie(*engine, MakeUnit({tokens}, {Rule{}}, true));
  const auto measured = model["measurements"].get<std::vector<float>>();
  ASSERT_EQ(result.rows[0].measurements.size(), measured.size());
  EXPECT_EQ(CompareScores(result.rows[0].measurements, measured.data()), "");
}

INSTANTIATE_TEST_SUITE_P(All, PaperModel, ::testing::Range(0, 14));

TEST(PaperModels, AreFourteen) {
  std::set<std::string> names;
  for (const Json& model : PaperModels()["models"]) names.insert(model["name"]);
  EXPECT_EQ(names.size(), 14u);
}

}  // namespace
}  // namespace headcount::engine
