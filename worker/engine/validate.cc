// See validate.h.

#include "worker/engine/validate.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "worker/engine/intervene/interventions.h"

namespace headcount::engine {
namespace {

using catalog::ModelConfig;

absl::Status CheckTokens(std::span<const int32_t> tokens, int64_t vocabulary,
                         const std::string& field) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocabulary) continue;
    return InvalidField(absl::StrCat(field, "[", i, "]"), absl::StrCat(tokens[i]),
                        absl::StrCat("a token id must be from 0 to ", vocabulary - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckTargets(const Unit& unit, const Row& row, int64_t length,
                          const std::string& name) {
  if (row.targets.empty()) return absl::OkStatus();
  if (row.scored < 1 || row.scored > length) {
    return InvalidField(name + ".scored", absl::StrCat(row.scored),
                        absl::StrCat("must be from 1 to the row's ", length, " tokens"));
  }
  const auto scored = static_cast<size_t>(row.scored);
  if (row.targets.size() % scored != 0) {
    return InvalidField(name + ".targets", absl::StrCat(row.targets.size(), " tokens"),
                        absl::StrCat("must be a multiple of `scored`, which is ", scored));
  }
  // All but the last token of a continuation are input too: a row in which they differ would be
  // scored on another text.
  const auto total = static_cast<size_t>(length);
  for (size_t i = 0; i < row.targets.size(); ++i) {
    if (i % scored + 1 == scored) continue;
    const size_t input = total - scored + i % scored + 1;
    const int32_t expected =
        input < unit.prefix.size() ? unit.prefix[input] : row.suffix[input - unit.prefix.size()];
    if (row.targets[i] != expected) {
      return InvalidField(
          absl::StrCat(name, ".targets[", i, "]"), absl::StrCat(row.targets[i]),
          absl::StrCat("must be the input token at position ", input, ", which is ", expected));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRuleIndex(int rule, size_t rules, const std::string& name) {
  if (rule >= 0 && static_cast<size_t>(rule) < rules) return absl::OkStatus();
  return InvalidField(name + ".rule", absl::StrCat(rule),
                      absl::StrCat("the unit has ", rules, " rules"));
}

absl::Status CheckRow(const ModelConfig& config, const Unit& unit, const Row& row,
                      const std::string& name) {
  HC_RETURN_IF_ERROR(CheckRuleIndex(row.rule, unit.rules.size(), name));
  const auto length = static_cast<int64_t>(unit.prefix.size() + row.suffix.size());
  if (length < 1 || length > config.max_position_embeddings) {
    return InvalidField(name, absl::StrCat(length, " tokens"),
                        absl::StrCat("must have from 1 to ", config.max_position_embeddings,
                                     " tokens, the model's context"));
  }
  HC_RETURN_IF_ERROR(CheckTokens(row.suffix, config.vocab_size, name + ".suffix"));
  HC_RETURN_IF_ERROR(CheckTokens(row.targets, config.vocab_size, name + ".targets"));
  return CheckTargets(unit, row, length, name);
}

absl::Status CheckScore(const Rule& rule, const std::string& name) {
  if (rule.score == nullptr) return InvalidField(name + ".score", "none", "is needed");
  if (rule.score->is_random()) {
    return InvalidField(name + ".score", rule.score->id,
                        "cannot be ordered; use the random selection");
  }
  return absl::OkStatus();
}

absl::Status CheckHeads(const ModelConfig& config, const Rule& rule, const std::string& name) {
  for (size_t i = 0; i < rule.heads.size(); ++i) {
    const Head& head = rule.heads[i];
    if (head.layer >= 0 && head.layer < config.layers && head.head >= 0 &&
        head.head < config.heads) {
      continue;
    }
    return InvalidField(absl::StrCat(name, ".heads[", i, "]"),
                        absl::StrCat(head.layer, ":", head.head),
                        absl::StrCat("the model has ", config.layers, " layers of ", config.heads,
                                     " query heads, counted from 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckRule(const ModelConfig& config, const Rule& rule, const std::string& name);

// The program finds its masks, and leaves one.
absl::Status CheckCombined(const ModelConfig& config, const Rule& rule, const std::string& name) {
  for (size_t i = 0; i < rule.parts.size(); ++i) {
    const std::string part = absl::StrCat(name, ".parts[", i, "]");
    if (rule.parts[i].select == Rule::Select::kCombined) {
      return InvalidField(part + ".select", "combined", "a part must be a simple rule");
    }
    HC_RETURN_IF_ERROR(CheckRule(config, rule.parts[i], part));
  }
  int masks = 0;
  for (size_t i = 0; i < rule.steps.size(); ++i) {
    const CombineStep& step = rule.steps[i];
    const std::string at = absl::StrCat(name, ".steps[", i, "]");
    const bool is_part = step.op == CombineStep::Op::kPart;
    if (is_part && (step.part < 0 || static_cast<size_t>(step.part) >= rule.parts.size())) {
      return InvalidField(at + ".part", absl::StrCat(step.part),
                          absl::StrCat("the rule has ", rule.parts.size(), " parts"));
    }
    const int taken = is_part ? 0 : step.op == CombineStep::Op::kRandomInLayer ? 1 : 2;
    if (masks < taken) return InvalidField(at, "", "has too few masks to work on");
    masks += 1 - taken;
  }
  if (masks == 1) return absl::OkStatus();
  return InvalidField(name + ".steps", absl::StrCat(masks, " masks"), "must leave one mask");
}

absl::Status CheckRule(const ModelConfig& config, const Rule& rule, const std::string& name) {
  if (rule.intervention.kind == Intervention::Kind::kScale &&
      !std::isfinite(rule.intervention.scale)) {
    return InvalidField(name + ".intervention.scale", absl::StrCat(rule.intervention.scale),
                        "must be finite");
  }
  if (!rule.layers.empty() && rule.layers.size() != static_cast<size_t>(config.layers)) {
    return InvalidField(name + ".layers", absl::StrCat(rule.layers.size(), " entries"),
                        absl::StrCat("must be empty or have ", config.layers, ", one a layer"));
  }
  if (rule.intervention.kind == Intervention::Kind::kMean) {
    const size_t size = static_cast<size_t>(config.layers) * static_cast<size_t>(config.heads) *
                        static_cast<size_t>(config.head_dim);
    const HeadMeans* means = rule.intervention.means.get();
    if (means == nullptr || means->rest.size() != size || means->first.size() != size) {
      return InvalidField(name + ".intervention.means",
                          means == nullptr ? "none" : absl::StrCat(means->rest.size(), " numbers"),
                          absl::StrCat("must be ", size, ", layers x heads x head_dim"));
    }
  }
  switch (rule.select) {
    case Rule::Select::kNone:
      return absl::OkStatus();
    case Rule::Select::kThreshold:
      if (!rule.layer_thresholds.empty() &&
          rule.layer_thresholds.size() != static_cast<size_t>(config.layers)) {
        return InvalidField(name + ".layer_thresholds",
                            absl::StrCat(rule.layer_thresholds.size(), " entries"),
                            absl::StrCat("must be empty or have ", config.layers, ", one a layer"));
      }
      for (size_t i = 0; i < rule.layer_thresholds.size(); ++i) {
        if (std::isfinite(rule.layer_thresholds[i])) continue;
        return InvalidField(absl::StrCat(name, ".layer_thresholds[", i, "]"),
                            absl::StrCat(rule.layer_thresholds[i]), "must be finite");
      }
      if (!std::isfinite(rule.threshold)) {
        return InvalidField(name + ".threshold", absl::StrCat(rule.threshold), "must be finite");
      }
      return CheckScore(rule, name);
    case Rule::Select::kTopK: {
      const int most = rule.unit == HeadUnit::kKvGroup ? config.kv_heads : config.heads;
      if (rule.top_k < 0 || rule.top_k > most) {
        return InvalidField(name + ".top_k", absl::StrCat(rule.top_k),
                            absl::StrCat("must be from 0 to ", most));
      }
      return CheckScore(rule, name);
    }
    case Rule::Select::kFixedHeads:
      return CheckHeads(config, rule, name);
    case Rule::Select::kRandom:
      if (!(rule.probability >= 0 && rule.probability <= 1)) {
        return InvalidField(name + ".probability", absl::StrCat(rule.probability),
                            "must be from 0 to 1");
      }
      return absl::OkStatus();
    case Rule::Select::kCombined:
      return CheckCombined(config, rule, name);
  }
  return InvalidField(name + ".select", absl::StrCat(static_cast<int>(rule.select)), "is unknown");
}

absl::Status CheckRules(const ModelConfig& config, std::span<const Rule> rules) {
  std::vector<Intervention> different;
  for (size_t i = 0; i < rules.size(); ++i) {
    HC_RETURN_IF_ERROR(CheckRule(config, rules[i], absl::StrCat("rules[", i, "]")));
    if (std::find(different.begin(), different.end(), rules[i].intervention) == different.end()) {
      different.push_back(rules[i].intervention);
    }
  }
  if (different.size() > kMostInterventions) {
    return InvalidField("rules", absl::StrCat(different.size(), " different interventions"),
                        absl::StrCat("must be at most ", kMostInterventions, " in a unit"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateUnit(const ModelConfig& config, const Unit& unit) {
  HC_RETURN_IF_ERROR(CheckTokens(unit.prefix, config.vocab_size, "prefix"));
  HC_RETURN_IF_ERROR(CheckRules(config, unit.rules));
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    HC_RETURN_IF_ERROR(CheckRow(config, unit, unit.rows[i], absl::StrCat("rows[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status ValidateUnit(const ModelConfig& config, const GenerateUnit& unit) {
  HC_RETURN_IF_ERROR(CheckRules(config, unit.rules));
  HC_RETURN_IF_ERROR(CheckTokens(unit.stop_tokens, config.vocab_size, "stop_tokens"));
  const int64_t context = config.max_position_embeddings;
  if (unit.max_new_tokens < 1 || unit.max_new_tokens >= context) {
    return InvalidField("max_new_tokens", absl::StrCat(unit.max_new_tokens),
                        absl::StrCat("must be from 1 to ", context - 1));
  }
  for (size_t i = 0; i < unit.rows.size(); ++i) {
    const GenerateRow& row = unit.rows[i];
    const std::string name = absl::StrCat("rows[", i, "]");
    HC_RETURN_IF_ERROR(CheckRuleIndex(row.rule, unit.rules.size(), name));
    HC_RETURN_IF_ERROR(CheckTokens(row.prompt, config.vocab_size, name + ".prompt"));
    const int64_t most = context - unit.max_new_tokens;
    if (row.prompt.empty() || static_cast<int64_t>(row.prompt.size()) > most) {
      return InvalidField(
          name + ".prompt", absl::StrCat(row.prompt.size(), " tokens"),
          absl::StrCat("must have from 1 to ", most, " tokens: the model's context of ", context,
                       " less ", unit.max_new_tokens, " new ones"));
    }
  }
  return absl::OkStatus();
}

}  // namespace headcount::engine
