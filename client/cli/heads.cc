// `headcount heads` (a map of the model's heads) and `headcount thresholds` (score value <-> share
// of heads).

#include <iterator>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/heat_map.h"
#include "client/cli/rule_text.h"
#include "client/cli/table.h"
#include "client/cli/workload_flags.h"

namespace headcount::cli {
namespace {

struct HeadFlags {
  std::string job;
  std::string score = "output_norm_ln";
  std::string user_score;
  std::optional<double> threshold;
  std::optional<double> fraction;
  std::string show = "mean";
  std::string subtask;
};

// The value at which `fraction` of the pooled scores is inactive.
absl::StatusOr<double> ThresholdAt(Context& context, const HeadFlags& flags) {
  v1::QueryThresholdsRequest request;
  request.set_job(context.JobName(flags.job));
  if (flags.user_score.empty()) {
    request.add_scores(flags.score);
  } else {
    const absl::StatusOr<v1::UserScore> score = ParseUserScore(flags.user_score);
    if (!score.ok()) return score.status();
    *request.add_user_scores() = *score;
  }
  request.add_fractions(*flags.fraction);
  v1::QueryThresholdsResponse answer;
  const absl::Status status =
      context.Call(context.results(), &v1::ResultService::Stub::QueryThresholds, request, &answer);
  if (!status.ok()) return status;
  if (answer.tables_size() != 1 || answer.tables(0).points_size() != 1) {
    return absl::InternalError("the server answered without the threshold that was asked for");
  }
  return answer.tables(0).points(0).value();
}

void ShowHeads(Context& context, const HeadFlags& flags) {
  v1::GetHeadScoresRequest request;
  request.set_job(context.JobName(flags.job));
  if (flags.user_score.empty()) {
    request.set_score(flags.score);
  } else {
    const absl::StatusOr<v1::UserScore> score = ParseUserScore(flags.user_score);
    if (!score.ok()) return context.Fail(score.status());
    *request.mutable_user_score() = *score;
  }
  if (flags.threshold) request.set_threshold(*flags.threshold);
  if (flags.fraction) {
    const absl::StatusOr<double> value = ThresholdAt(context, flags);
    if (!value.ok()) return context.Fail(value.status());
    request.set_threshold(*value);
  }
  v1::HeadScores scores;
  const absl::Status status =
      context.Call(context.results(), &v1::ResultService::Stub::GetHeadScores, request, &scores);
  if (!status.ok()) return context.Fail(status);
  if (context.json) return context.PrintJson(scores);

  HeatMap map;
  map.layers = scores.layers();
  map.heads = scores.heads();
  map.kv_heads = scores.kv_heads();
  const bool inactive = request.has_threshold() && flags.show != "std";
  map.percent = inactive;
  const std::string unit = inactive ? "of samples" : scores.unit();
  map.unit = unit;
  const auto& values = inactive              ? scores.inactive_fraction()
                       : flags.show == "std" ? scores.standard_deviation()
                                             : scores.mean();
  if (values.size() != scores.layers() * scores.heads()) {
    return context.Fail(absl::InternalError("the server's arrays do not fit its layers x heads"));
  }
  map.values = {values.data(), static_cast<size_t>(values.size())};
  if (inactive) map.inactive = map.values;
  const std::string what =
      inactive ? absl::StrFormat("share of samples in which a head is inactive: %s %s %.4g",
                                 scores.score(), scores.inactive_side(), request.threshold())
               : absl::StrCat(scores.score(), ", ",
                              flags.show == "std" ? "standard deviation" : "mean", " over samples");
  const std::string title = absl::StrCat(what, "  (", scores.samples(), " samples",
                                         flags.subtask.empty() ? "" : " of " + flags.subtask,
                                         scores.complete() ? "" : " so far", ")");
  map.title = title;
  std::printf("%s", RenderHeatMap(context.style(), map).c_str());
  if (scores.per_kv_head()) std::printf("query heads of one KV group share this score\n");
  if (scores.non_finite() > 0) {
    std::printf("%lld values were not finite and are left out\n",
                static_cast<long long>(scores.non_finite()));
  }
}

struct ThresholdFlags {
  std::string job;
  std::vector<std::string> scores;
  std::vector<std::string> user_scores;
  std::vector<double> fractions;
  std::vector<double> values;
  LayerFlags layers;
  bool kv_groups = false;
};

// Bytes or operations, with a prefix where they are many.
std::string Amount(double value, const char* unit) {
  const char* prefixes[] = {"", "k", "M", "G", "T"};
  size_t i = 0;
  for (; value >= 10'000 && i + 1 < std::size(prefixes); ++i) value /= 1000;
  return absl::StrFormat("%.4g %s%s", value, prefixes[i], unit);
}

// Two lines a point: what is inactive on a sample, and what is on nearly all.
void ShowKvGroups(Context& context, const v1::QueryThresholdsResponse& answer) {
  Table table({{"score"},
               {"value", Table::Align::kRight},
               {"KV groups inactive"},
               {"groups", Table::Align::kRight},
               {"of", Table::Align::kRight},
               {"KV cache a token", Table::Align::kRight},
               {"FLOPs of attention a token", Table::Align::kRight}});
  for (const v1::ThresholdTable& each : answer.tables()) {
    for (const v1::ThresholdPoint& point : each.points()) {
      if (!point.has_kv_groups()) continue;
      const auto add = [&](const char* what, const v1::KvCost& cost) {
        table.AddRow({each.score(), absl::StrFormat("%.6g", point.value()), what,
                      absl::StrFormat("%.4g", cost.groups()),
                      absl::StrFormat("%.0f", point.kv_groups().all().groups()),
                      "-" + Amount(cost.kv_bytes_per_token(), "B"),
                      "-" + Amount(cost.flops_per_token(), "FLOP")});
      };
      add("on a sample, mean", point.kv_groups().per_sample());
      add("on 95 % of samples", point.kv_groups().always());
    }
  }
  std::printf("%s", table.Render(context.style()).c_str());
}

void ShowThresholds(Context& context, const ThresholdFlags& flags) {
  v1::QueryThresholdsRequest request;
  request.set_job(context.JobName(flags.job));
  for (const std::string& score : flags.scores) request.add_scores(score);
  for (const std::string& text : flags.user_scores) {
    const absl::StatusOr<v1::UserScore> score = ParseUserScore(text);
    if (!score.ok()) return context.Fail(score.status());
    *request.add_user_scores() = *score;
  }
  for (double fraction : flags.fractions) request.add_fractions(fraction);
  for (double value : flags.values) request.add_values(value);
  if (flags.fractions.empty() && flags.values.empty()) {
    for (double fraction : {0.05, 0.10, 0.15, 0.20, 0.25, 0.30}) request.add_fractions(fraction);
  }
  const absl::StatusOr<v1::LayerSelection> layers = flags.layers.ToLayers();
  if (!layers.ok()) return context.Fail(layers.status());
  *request.mutable_layers() = *layers;
  request.set_kv_groups(flags.kv_groups);
  v1::QueryThresholdsResponse answer;
  const absl::Status status =
      context.Call(context.results(), &v1::ResultService::Stub::QueryThresholds, request, &answer);
  if (!status.ok()) return context.Fail(status);
  if (context.json) return context.PrintJson(answer);
  Table table({{"score"},
               {"inactive"},
               {"% of heads", Table::Align::kRight},
               {"value", Table::Align::kRight}});
  for (const v1::ThresholdTable& each : answer.tables()) {
    for (const v1::ThresholdPoint& point : each.points()) {
      table.AddRow({each.score(), each.inactive_side() + " value",
                    absl::StrFormat("%.2f", 100 * point.fraction()),
                    absl::StrFormat("%.6g", point.value())});
    }
  }
  std::printf("%s", table.Render(context.style()).c_str());
  if (flags.kv_groups) ShowKvGroups(context, answer);
  if (!answer.complete())
    std::printf("%s\n",
                Dim(context.style(), "the job still runs: these are the scores so far").c_str());
}

}  // namespace

void AddHeads(CLI::App& app, Context& context) {
  auto flags = std::make_shared<HeadFlags>();
  CLI::App* heads = app.add_subcommand(
      "heads", "a layers x heads map of a score, or of how often a head is inactive");
  heads->add_option("job", flags->job, "score or sweep job")->required();
  heads->add_option("--score", flags->score, "score id (headcount scores)")->capture_default_str();
  heads->add_option("--user-score", flags->user_score, kUserScoreHelp);
  auto* threshold = heads->add_option("--threshold", flags->threshold,
                                      "show the share of samples inactive at this value");
  heads
      ->add_option("--fraction", flags->fraction,
                   "the same at the value that makes this fraction of heads inactive")
      ->excludes(threshold);
  heads->add_option("--show", flags->show, "mean or std, over samples")
      ->check(CLI::IsMember({"mean", "std"}))
      ->capture_default_str();
  heads->add_option("--subtask", flags->subtask,
                    "only the samples of this subtask, e.g. an MMLU subject");
  heads->footer("Example: headcount heads k3v9x2m4qp --score first_token_weight --fraction 0.15");
  heads->callback([&context, flags] { ShowHeads(context, *flags); });

  auto query = std::make_shared<ThresholdFlags>();
  CLI::App* thresholds =
      app.add_subcommand("thresholds", "score value <-> share of heads, from stored scores");
  thresholds->add_option("job", query->job, "score or sweep job")->required();
  thresholds
      ->add_option("--score", query->scores, "score ids with commas between them (default: all)")
      ->delimiter(',');
  thresholds
      ->add_option("--fraction", query->fractions,
                   "fractions to turn into values (default .05 to .30)")
      ->delimiter(',');
  thresholds->add_option("--value", query->values, "values to turn into fractions")->delimiter(',');
  thresholds->add_option("--user-score", query->user_scores, kUserScoreHelp);
  query->layers.AddTo(thresholds);
  thresholds->add_flag("--kv-groups", query->kv_groups,
                       "also the KV groups that are wholly inactive, and what they cost");
  thresholds->footer("Example: headcount thresholds k3v9x2m4qp --score entropy --value 0.5,1.0");
  thresholds->callback([&context, query] { ShowThresholds(context, *query); });
}

}  // namespace headcount::cli
