// See engine_cases.h.

#include "tests/bench/engine_cases.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/catalog/measurements.h"
#include "common/catalog/scores.h"
#include "tests/bench/cost.h"

namespace headcount::bench {
namespace {

using Json = nlohmann::json;

// A command's tokens and the engine unit that points at them.
struct BenchUnit {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> names;  // one a prompt
  std::vector<int32_t> targets;
  engine::Unit unit;
};

// Tokens that all prompts begin with; at least one is left to each.
size_t CommonPrefix(const std::vector<std::vector<int32_t>>& prompts) {
  if (prompts.size() < 2) return 0;
  size_t common = prompts[0].size() - 1;
  for (const auto& prompt : prompts) {
    common = std::min(common, prompt.size() - 1);
    const auto end = prompt.begin() + static_cast<int64_t>(common);
    common = static_cast<size_t>(std::mismatch(prompt.begin(), end, prompts[0].begin()).first -
                                 prompt.begin());
  }
  return common;
}

absl::StatusOr<engine::Rule> ReadRule(const Json& json) {
  engine::Rule rule;
  if (json.contains("random")) {
    rule.select = engine::Rule::Select::kRandom;
    rule.probability = json.at("random");
  } else if (json.contains("score")) {
    rule.select = engine::Rule::Select::kThreshold;
    HC_ASSIGN_OR_RETURN(rule.score, catalog::FindScore(json.at("score").get<std::string>()));
    rule.threshold = json.at("threshold");
  }
  return rule;
}

absl::StatusOr<std::vector<engine::Rule>> ReadRules(const Json& command) {
  std::vector<engine::Rule> rules;
  for (const Json& rule : command.value("rules", Json::array({Json::object()}))) {
    HC_ASSIGN_OR_RETURN(rules.emplace_back(), ReadRule(rule));
  }
  return rules;
}

// The only place that knows how prompts become a unit.
absl::StatusOr<BenchUnit> BuildUnit(const Json& command) {
  BenchUnit built;
  command.at("prompts").get_to(built.prompts);
  command.at("targets").get_to(built.targets);
  for (const auto& prompt : built.prompts) {
    if (prompt.empty()) return absl::InvalidArgumentError("prompts: one of them is empty");
  }
  HC_ASSIGN_OR_RETURN(built.unit.rules, ReadRules(command));
  const size_t shared = CommonPrefix(built.prompts);
  for (size_t p = 0; p < built.prompts.size(); ++p) {
    built.names.push_back("prompt/" + std::to_string(p));
  }
  built.unit.prefix = std::span(built.prompts.at(0)).first(shared);
  for (size_t r = 0; r < built.unit.rules.size(); ++r) {
    for (size_t p = 0; p < built.prompts.size(); ++p) {
      engine::Row row;
      row.suffix = std::span(built.prompts[p]).subspan(shared);
      row.targets = built.targets;
      row.scored = 1;
      row.rule = static_cast<int>(r);
      // Any name will do that differs between prompts: each draws its own heads.
      row.sample = built.names.at(p);
      built.unit.rows.push_back(row);
    }
  }
  return built;
}

// Zeroed heads over all heads.
class Share {
 public:
  explicit Share(const catalog::ModelConfig& model) : heads_(int64_t{model.layers} * model.heads) {}
  void Add(const std::vector<uint8_t>& mask) {
    for (const uint8_t byte : mask) zeroed_ += std::popcount(byte);
    all_ += heads_;
  }
  double value() const {
    return static_cast<double>(zeroed_) / static_cast<double>(std::max<int64_t>(1, all_));
  }

 private:
  int64_t heads_ = 0;
  int64_t zeroed_ = 0;
  int64_t all_ = 0;
};

// semantics: linear between the sorted values x_i at shares i / N.
float Quantile(const std::vector<float>& sorted, double share) {
  const auto count = static_cast<double>(sorted.size());
  const double at = std::clamp(share * count, 1.0, count) - 1;
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  const auto weight = static_cast<float>(at - static_cast<double>(low));
  return sorted[low] + (sorted[high] - sorted[low]) * weight;
}

std::vector<float> SortedValues(const engine::UnitResult& result, const catalog::Score& score,
                                const catalog::ModelConfig& model) {
  const size_t size = static_cast<size_t>(model.layers) * model.heads;
  std::vector<float> values, of_row(size);
  for (const engine::RowResult& row : result.rows) {
    std::array<const float*, catalog::kMeasurementCount> measurements;
    for (size_t m = 0; m < measurements.size(); ++m)
      measurements[m] = row.measurements.data() + m * size;
    score.expression.EvaluateLayers(measurements, model.layers, model.heads, of_row);
    values.insert(values.end(), of_row.begin(), of_row.end());
  }
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

absl::StatusOr<Json> TimePass(engine::Engine& engine, const Json& command) {
  HC_ASSIGN_OR_RETURN(BenchUnit built, BuildUnit(command));
  const std::string name = command.at("case");
  if (name == "record") {
    built.unit.record.measurements = true;
    built.unit.record.head_sums = command.value("head_sums", false);
  }
  const engine::CancelFlag cancel = false;
  std::optional<absl::StatusOr<engine::UnitResult>> result;
  const Cost cost = Measure([&] {
    result = name == "plain" ? engine.RunPlain(built.unit, cancel)
                             : engine.Run(built.unit, cancel, nullptr);
  });
  if (!result->ok()) return result->status();
  Share share(engine.config());
  for (const engine::RowResult& row : (*result)->rows) share.Add(row.mask);
  return Json{{"seconds", cost.seconds},
              {"cpu_seconds", cost.cpu_seconds},
              {"tokens", (*result)->tokens},
              {"computed_tokens", (*result)->computed_tokens},
              {"share", share.value()}};
}

absl::StatusOr<Json> TimeGeneration(engine::Engine& engine, const Json& command) {
  const std::vector<std::vector<int32_t>> prompts = command.at("prompts");
  engine::GenerateUnit unit;
  HC_ASSIGN_OR_RETURN(unit.rules, ReadRules(command));
  unit.max_new_tokens = command.at("new_tokens");
  for (size_t r = 0; r < unit.rules.size(); ++r) {
    for (const auto& prompt : prompts)
      unit.rows.push_back({.prompt = prompt, .rule = static_cast<int>(r)});
  }
  const engine::CancelFlag cancel = false;
  std::optional<absl::StatusOr<engine::GenerateResult>> result;
  const Cost cost = Measure([&] { result = engine.Generate(unit, cancel, nullptr); });
  if (!result->ok()) return result->status();
  Share share(engine.config());
  Json generated = Json::array();
  for (const engine::GeneratedRow& row : (*result)->rows) {
    generated.push_back(row.tokens);
    for (const auto& mask : row.masks) share.Add(mask);
  }
  return Json{{"seconds", cost.seconds},
              {"cpu_seconds", cost.cpu_seconds},
              {"generated", generated},
              {"computed_tokens", (*result)->computed_tokens},
              {"recomputed_tokens", (*result)->recomputed_tokens},
              {"share", share.value()}};
}

absl::StatusOr<Json> Thresholds(engine::Engine& engine, const Json& command) {
  HC_ASSIGN_OR_RETURN(BenchUnit built, BuildUnit(command));
  built.unit.record.measurements = true;
  const engine::CancelFlag cancel = false;
  HC_ASSIGN_OR_RETURN(const engine::UnitResult result, engine.Run(built.unit, cancel, nullptr));
  Json thresholds = Json::object();
  for (const std::string id : command.at("scores")) {
    HC_ASSIGN_OR_RETURN(const catalog::Score* score, catalog::FindScore(id));
    if (score->is_random())
      return absl::InvalidArgumentError("scores: random is drawn, it has no threshold");
    const std::vector<float> sorted = SortedValues(result, *score, engine.config());
    for (const double fraction : command.at("fractions")) {
      const bool below = score->inactive == catalog::Inactive::kBelow;
      thresholds[id].push_back(Quantile(sorted, below ? fraction : 1 - fraction));
    }
  }
  return Json{{"thresholds", thresholds}};
}

}  // namespace headcount::bench
