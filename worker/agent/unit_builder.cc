// See unit_builder.h.

#include "worker/agent/unit_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"
#include "common/catalog/user_score.h"

namespace headcount::agent {
namespace {

// What the prefixes of all groups in the range have in common.
std::span<const int32_t> CommonPrefix(const v1::UnitRange& range, const SampleRange& samples) {
  std::span<const int32_t> common = samples.prefixes.at(samples.at(range.first_sample()).group());
  for (int i = 1; i < range.samples(); ++i) {
    const auto& prefix = samples.prefixes.at(samples.at(range.first_sample() + i).group());
    const size_t most = std::min(common.size(), prefix.size());
    const auto end =
        std::mismatch(common.begin(), common.begin() + static_cast<int64_t>(most), prefix.begin());
    common = common.first(static_cast<size_t>(end.first - common.begin()));
  }
  return common;
}

// Little-endian float32.
absl::StatusOr<std::vector<float>> Floats(const std::string& bytes) {
  if (bytes.size() % sizeof(float) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("head means of ", bytes.size(), " bytes are no numbers"));
  }
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// The rule for the sample of that number.
absl::StatusOr<v1::ResolvedRule> RuleOfSample(const v1::ResolvedRule& rule, int64_t sample,
                                              const catalog::ModelConfig& model) {
  const int heads = model.layers * model.heads;
  const auto each = static_cast<size_t>((heads + 7) / 8);
  const v1::SampleMasks& masks = rule.sample_masks();
  const int64_t place = sample - masks.first_sample();
  if (place < 0 || (static_cast<size_t>(place) + 1) * each > masks.masks().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rule ", rule.index(), ": has no mask for sample ", sample));
  }
  const char* mask = masks.masks().data() + static_cast<size_t>(place) * each;
  v1::ResolvedRule out;
  out.set_index(rule.index());
  *out.mutable_intervention() = rule.intervention();
  out.set_means(rule.means());
  out.mutable_fixed_heads();
  for (int bit = 0; bit < heads; ++bit) {
    if ((static_cast<unsigned char>(mask[bit / 8]) >> (bit % 8) & 1) == 0) continue;
    v1::Head* head = out.mutable_fixed_heads()->add_heads();
    head->set_layer(bit / model.heads);
    head->set_head(bit % model.heads);
  }
  return out;
}

// Of a ResolvedThreshold or a ResolvedTopK.
template <typename Selection>
absl::Status SetScore(const Selection& selection, engine::Rule* rule) {
  if (!selection.has_user_score()) {
    HC_ASSIGN_OR_RETURN(rule->score, catalog::FindScore(selection.score()));
    return absl::OkStatus();
  }
  const v1::UserScore& score = selection.user_score();
  HC_ASSIGN_OR_RETURN(
      rule->user_score,
      catalog::MakeUserScore(score.name(), score.expression(),
                             score.inactive() == v1::UserScore::ABOVE ? catalog::Inactive::kAbove
                                                                      : catalog::Inactive::kBelow,
                             "user_score"));
  rule->score = rule->user_score.get();
  return absl::OkStatus();
}

engine::HeadUnit BuildUnitOf(v1::Unit unit) {
  return unit == v1::UNIT_KV_GROUP ? engine::HeadUnit::kKvGroup : engine::HeadUnit::kQueryHead;
}

engine::GroupScore BuildGroupScore(v1::GroupScore score) {
  if (score == v1::GROUP_SCORE_MAX) return engine::GroupScore::kMax;
  if (score == v1::GROUP_SCORE_MIN) return engine::GroupScore::kMin;
  return engine::GroupScore::kMean;
}

absl::StatusOr<engine::CombineStep> BuildStep(const v1::CombineStep& step) {
  using Op = engine::CombineStep::Op;
  engine::CombineStep out{Op::kPart, step.part(), step.seed(), BuildUnitOf(step.unit())};
  switch (step.op()) {
    case v1::CombineStep::PART:
      return out;
    case v1::CombineStep::AND:
      out.op = Op::kAnd;
      return out;
    case v1::CombineStep::OR:
      out.op = Op::kOr;
      return out;
    case v1::CombineStep::AND_NOT:
      out.op = Op::kAndNot;
      return out;
    case v1::CombineStep::RANDOM_IN_LAYER:
      out.op = Op::kRandomInLayer;
      return out;
    default:
      return absl::InvalidArgumentError(
          "it is put together in a way that this worker does not know");
  }
}

absl::StatusOr<engine::Intervention> BuildIntervention(const v1::ResolvedRule& rule,
                                                       std::span<const SharedMeans> means) {
  const v1::Intervention& intervention = rule.intervention();
  engine::Intervention out;
  switch (intervention.kind_case()) {
    case v1::Intervention::KIND_NOT_SET:
    case v1::Intervention::kZero:
      return out;
    case v1::Intervention::kScale:
      out.kind = engine::Intervention::Kind::kScale;
      out.scale = static_cast<float>(intervention.scale());
      return out;
    case v1::Intervention::kFirstValue:
      out.kind = engine::Intervention::Kind::kFirstValue;
      return out;
    case v1::Intervention::kMean:
      if (rule.means() < 0 || static_cast<size_t>(rule.means()) >= means.size()) {
        return absl::InvalidArgumentError(absl::StrCat("the task carries no means ", rule.means()));
      }
      out.kind = engine::Intervention::Kind::kMean;
      out.means = means[static_cast<size_t>(rule.means())];
      return out;
    default:
      return absl::InvalidArgumentError("its intervention is none that this worker knows");
  }
}

}  // namespace

absl::StatusOr<std::vector<SharedMeans>> BuildMeans(
    const google::protobuf::RepeatedPtrField<v1::HeadMeans>& means) {
  std::vector<SharedMeans> out;
  for (const v1::HeadMeans& each : means) {
    auto built = std::make_shared<engine::HeadMeans>();
    HC_ASSIGN_OR_RETURN(built->rest, Floats(each.rest()));
    HC_ASSIGN_OR_RETURN(built->first, Floats(each.first()));
    out.push_back(std::move(built));
  }
  return out;
}

absl::StatusOr<const v1::ResolvedRule*> FindRule(std::span<const v1::ResolvedRule> rules,
                                                 int index) {
  for (const v1::ResolvedRule& rule : rules) {
    if (rule.index() == index) return &rule;
  }
  return absl::InvalidArgumentError(absl::StrCat("the task does not carry rule ", index));
}

absl::StatusOr<engine::Rule> BuildRule(const v1::ResolvedRule& rule,
                                       const catalog::ModelConfig& model,
                                       std::span<const SharedMeans> means) {
  const auto error = [&rule](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("rule ", rule.index(), ": ", what));
  };
  engine::Rule out;
  switch (rule.select_case()) {
    case v1::ResolvedRule::kThreshold: {
      out.select = engine::Rule::Select::kThreshold;
      HC_RETURN_IF_ERROR(SetScore(rule.threshold(), &out));
      out.threshold = rule.threshold().value();
      out.layer_thresholds.assign(rule.threshold().layer_values().begin(),
                                  rule.threshold().layer_values().end());
      if (const size_t given = out.layer_thresholds.size();
          given != 0 && given != static_cast<size_t>(model.layers)) {
        return error(
            absl::StrCat("has thresholds for ", given, " layers, the model has ", model.layers));
      }
      break;
    }
    case v1::ResolvedRule::kTopK: {
      out.select = engine::Rule::Select::kTopK;
      HC_RETURN_IF_ERROR(SetScore(rule.top_k(), &out));
      out.top_k = rule.top_k().k();
      const bool groups = rule.unit() == v1::UNIT_KV_GROUP;
      if (const int most = groups ? model.kv_heads : model.heads;
          out.top_k < 0 || out.top_k > most) {
        return error(absl::StrCat("top_k is ", out.top_k, ", the model has ", most,
                                  groups ? " KV heads" : " query heads"));
      }
      break;
    }
    case v1::ResolvedRule::kFixedHeads:
      out.select = engine::Rule::Select::kFixedHeads;
      for (const v1::Head& head : rule.fixed_heads().heads()) {
        if (head.layer() < 0 || head.layer() >= model.layers || head.head() < 0 ||
            head.head() >= model.heads) {
          return error(absl::StrCat("head (", head.layer(), ", ", head.head(), ") is not one of ",
                                    model.layers, " x ", model.heads));
        }
        out.heads.push_back({head.layer(), head.head()});
      }
      break;
    case v1::ResolvedRule::kRandom:
      out.select = engine::Rule::Select::kRandom;
      out.probability = rule.random().p();
      out.seed = rule.random().seed();
      break;
    case v1::ResolvedRule::kCombined: {
      out.select = engine::Rule::Select::kCombined;
      for (const v1::ResolvedRule& part : rule.combined().parts()) {
        HC_ASSIGN_OR_RETURN(engine::Rule built, BuildRule(part, model));
        out.parts.push_back(std::move(built));
      }
      for (const v1::CombineStep& step : rule.combined().steps()) {
        const absl::StatusOr<engine::CombineStep> built = BuildStep(step);
        if (!built.ok()) return error(std::string(built.status().message()));
        out.steps.push_back(*built);
      }
      break;
    }
    case v1::ResolvedRule::kNone:
      out.select = engine::Rule::Select::kNone;
      break;
    case v1::ResolvedRule::kSampleMasks:
      return error("has a mask for each sample");
    case v1::ResolvedRule::SELECT_NOT_SET:
      return error("selects nothing that this worker knows");
  }
  out.unit = BuildUnitOf(rule.unit());
  out.group_score = BuildGroupScore(rule.group_score());
  const absl::StatusOr<engine::Intervention> intervention = BuildIntervention(rule, means);
  if (!intervention.ok()) return error(std::string(intervention.status().message()));
  out.intervention = *intervention;
  if (!rule.layers().empty()) out.layers.assign(model.layers, 0);
  for (const int32_t layer : rule.layers()) {
    if (layer < 0 || layer >= model.layers) {
      return error(absl::StrCat("layer ", layer, " is not below ", model.layers));
    }
    out.layers[layer] = 1;
  }
  return out;
}

absl::StatusOr<BuiltUnit> BuildUnit(const v1::UnitRange& range,
                                    std::shared_ptr<const SampleRange> samples,
                                    std::span<const v1::ResolvedRule> rules,
                                    const catalog::ModelConfig& model,
                                    std::span<const SharedMeans> means,
                                    const v1::RowRecord& record) {
  if (range.samples() < 1 ||
      !samples->Covers(samples->manifest_digest, range.first_sample(), range.samples())) {
    return absl::InvalidArgumentError(absl::StrCat("unit ", range.unit(), ": samples [",
                                                   range.first_sample(), ", +", range.samples(),
                                                   ") are not at hand"));
  }
  BuiltUnit built;
  built.samples = std::move(samples);
  built.unit.prefix = CommonPrefix(range, *built.samples);
  const size_t shared = built.unit.prefix.size();

  // The engine's rule of each (rule, sample).
  std::vector<std::vector<int>> rule_of;
  const auto add = [&](engine::Rule rule) {
    built.unit.rules.push_back(std::move(rule));
    return static_cast<int>(built.unit.rules.size()) - 1;
  };
  if (range.rules() == 0) {  // a score unit
    rule_of.emplace_back(range.samples(), add({}));
    built.unit.record = {.measurements = true, .head_sums = true};
  }
  if (range.rules() > 0) built.unit.record.measurements = record.measurements();
  for (int r = 0; r < range.rules(); ++r) {
    HC_ASSIGN_OR_RETURN(const v1::ResolvedRule* source, FindRule(rules, range.first_rule() + r));
    std::vector<int>& of_samples = rule_of.emplace_back();
    if (!source->has_sample_masks()) {
      HC_ASSIGN_OR_RETURN(engine::Rule rule, BuildRule(*source, model, means));
      of_samples.assign(range.samples(), add(std::move(rule)));
      continue;
    }
    for (int i = 0; i < range.samples(); ++i) {
      HC_ASSIGN_OR_RETURN(const v1::ResolvedRule of_sample,
                          RuleOfSample(*source, range.first_sample() + i, model));
      HC_ASSIGN_OR_RETURN(engine::Rule rule, BuildRule(of_sample, model, means));
      of_samples.push_back(add(std::move(rule)));
    }
  }

  std::vector<engine::Row> rows;  // one a sample, without its rule
  for (int i = 0; i < range.samples(); ++i) {
    const v1::ManifestSample& sample = built.samples->at(range.first_sample() + i);
    const std::vector<int32_t>& prefix = built.samples->prefixes.at(sample.group());
    engine::Row row;
    row.suffix = std::span(sample.suffix().data(), static_cast<size_t>(sample.suffix_size()));
    if (prefix.size() > shared) {
      std::vector<int32_t> suffix(prefix.begin() + static_cast<int64_t>(shared), prefix.end());
      suffix.insert(suffix.end(), sample.suffix().begin(), sample.suffix().end());
      built.storage.push_back(std::move(suffix));
      row.suffix = built.storage.back();
    }
    row.targets = std::span(sample.targets().data(), static_cast<size_t>(sample.targets_size()));
    row.scored = sample.scored();
    rows.push_back(row);
  }
  for (const std::vector<int>& of_samples : rule_of) {
    for (int i = 0; i < range.samples(); ++i) {
      engine::Row row = rows[i];
      row.rule = of_samples[static_cast<size_t>(i)];
      row.sample = built.samples->at(range.first_sample() + i).id();
      row.next_token = record.next_tokens() > 0;
      row.first_weights = record.first_weights() && &of_samples == &rule_of.front();
      built.unit.rows.push_back(row);
    }
  }
  return built;
}

}  // namespace headcount::agent
