// See engine_testing.h.

#include "engine_testing.h"

#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>

#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::cerr << "test needs this to work: " << value.status() << std::endl;
    std::abort();
  }
  return *std::move(value);
}

}  // namespace

std::unique_ptr<Engine> LoadOrDie(const std::string& directory, DType dtype,
                                  const EngineOptions& options) {
  EngineOptions with_threads = options;
  if (options.threads == 0) with_threads.threads = directory.starts_with("tests/golden/") ? 1 : 2;
  const char* wanted = std::getenv("HEADCOUNT_TEST_DEVICE");
  Device device;
  if (wanted != nullptr && std::string(wanted) == "cuda") device.kind = Device::Kind::kCuda;
  return ValueOrDie(Engine::Load(directory, dtype, device, with_threads));
}

UnitResult RunOrDie(Engine& engine, const Unit& unit) {
  CancelFlag cancel = false;
  return ValueOrDie(engine.Run(unit, cancel, nullptr));
}

Unit MakeUnit(const std::vector<std::vector<int32_t>>& prompts, std::vector<Rule> rules,
              bool measurements) {
  // Rows only refer to their tokens: those of all units of a test program are kept here.
  static std::deque<std::vector<int32_t>>& kept = *new std::deque<std::vector<int32_t>>;
  Unit unit;
  for (size_t rule = 0; rule < rules.size(); ++rule) {
    for (const std::vector<int32_t>& prompt : prompts) {
      kept.push_back(prompt);
      unit.rows.push_back({.suffix = kept.back(), .rule = static_cast<int>(rule)});
    }
  }
  unit.rules = std::move(rules);
  unit.record.measurements = measurements;
  return unit;
}

std::vector<float> ScoresOf(const RowResult& row, const catalog::ModelConfig& config,
                            const catalog::Score& score) {
  const size_t size = static_cast<size_t>(config.layers) * static_cast<size_t>(config.heads);
  EXPECT_EQ(row.measurements.size(), size * catalog::kMeasurementCount);
  const float* measurements[catalog::kMeasurementCount];
  for (size_t m = 0; m < catalog::kMeasurementCount; ++m) {
    measurements[m] = row.measurements.data() + m * size;
  }
  std::vector<float> out(size);
  score.expression.EvaluateLayers(measurements, config.layers, config.heads, out);
  return out;
}

std::vector<float> MaskOf(const RowResult& row, const catalog::ModelConfig& config) {
  std::vector<float> out(static_cast<size_t>(config.layers) * static_cast<size_t>(config.heads));
  EXPECT_EQ(row.mask.size(), (out.size() + 7) / 8);
  for (size_t bit = 0; bit < out.size(); ++bit) {
    out[bit] = static_cast<float>(row.mask[bit / 8] >> (bit % 8) & 1);
  }
  return out;
}

const catalog::Score& ScoreOrDie(const std::string& id_or_alias) {
  return *ValueOrDie(catalog::FindScore(id_or_alias));
}

Rule ThresholdRule(const std::string& score, float threshold) {
  Rule rule;
  rule.select = Rule::Select::kThreshold;
  rule.score = &ScoreOrDie(score);
  rule.threshold = threshold;
  return rule;
}

Rule FixedRule(std::vector<Head> heads) {
  Rule rule;
  rule.select = Rule::Select::kFixedHeads;
  rule.heads = std::move(heads);
  return rule;
}

std::string_view SampleName(size_t i) {
  static std::map<size_t, std::string>& names = *new std::map<size_t, std::string>;
  return names.try_emplace(i, "sample/" + std::to_string(i)).first->second;
}

Rule RandomRule(double probability) {
  Rule rule;
  rule.select = Rule::Select::kRandom;
  rule.probability = probability;
  return rule;
}

Rule TopKRule(const std::string& score, int k) {
  Rule rule;
  rule.select = Rule::Select::kTopK;
  rule.score = &ScoreOrDie(score);
  rule.top_k = k;
  return rule;
}

Rule Scaled(Rule rule, float scale) {
  rule.intervention = {Intervention::Kind::kScale, scale};
  return rule;
}

Rule ToFirstValue(Rule rule) {
  rule.intervention.kind = Intervention::Kind::kFirstValue;
  return rule;
}

Rule ToMean(Rule rule, std::shared_ptr<const HeadMeans> means) {
  rule.intervention.kind = Intervention::Kind::kMean;
  rule.intervention.means = std::move(means);
  return rule;
}

std::shared_ptr<const HeadMeans> SomeMeans(const catalog::ModelConfig& config) {
  const auto size = static_cast<size_t>(config.layers * config.heads * config.head_dim);
  auto means = std::make_shared<HeadMeans>();
  for (size_t i = 0; i < size; ++i) {
    means->rest.push_back(0.01f * static_cast<float>(i % 17) - 0.08f);
    means->first.push_back(0.02f * static_cast<float>(i % 5) - 0.04f);
  }
  return means;
}

Rule FixedRule(const catalog::ModelConfig& config, const float* mask) {
  std::vector<Head> heads;
  for (int layer = 0; layer < config.layers; ++layer) {
    for (int head = 0; head < config.heads; ++head) {
      if (*mask++ != 0) heads.push_back({layer, head});
    }
  }
  return FixedRule(std::move(heads));
}

}  // namespace headcount::engine
