// `headcount compare`: scores of two jobs side by side.

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

using Align = Table::Align;

void PrintComparison(Context& context, const v1::Comparison& comparison) {
  const Style& style = context.style();
  for (const v1::ScoreComparison& score : comparison.scores()) {
    const std::string name = score.score_a() == score.score_b()
                                 ? score.score_a()
                                 : absl::StrCat(score.score_a(), " / ", score.score_b());
    std::printf("%s\n", name.c_str());
    Table layers({{"layer"},
                  {"laid over", Align::kRight},
                  {"Wasserstein-1", Align::kRight},
                  {"KS", Align::kRight}});
    for (const v1::LayerComparison& layer : score.layers()) {
      layers.AddRow({absl::StrCat(layer.layer_a()), absl::StrCat(layer.layer_b()),
                     Number(layer.wasserstein(), 4), Number(layer.kolmogorov_smirnov(), 3)});
    }
    std::printf("%s", layers.Render(style).c_str());
    if (!comparison.same_shape()) continue;
    std::printf("heads: rank correlation of means %s, overlap of inactive heads %s, mean KS %s\n",
                Number(score.spearman(), 3).c_str(), Number(score.inactive_overlap(), 3).c_str(),
                Number(MeanOfFinite(score.kolmogorov_smirnov()), 3).c_str());
    if (score.to_inactive_size() > 0) {
      std::printf("on the same sample: %s %% of heads fall inactive, %s %% become active\n",
                  Percent(MeanOfFinite(score.to_inactive())).c_str(),
                  Percent(MeanOfFinite(score.to_active())).c_str());
    }
  }
  std::printf("%s\n", comparison.same_inputs() ? "both jobs ran the same token ids"
                                               : "the jobs ran different token ids");
  for (const std::string& warning : comparison.warnings()) {
    std::printf("%s\n", Dim(style, "note: " + warning).c_str());
  }
}

// All sides of a compare job.
void ShowSides(Context& context, const std::string& job) {
  v1::GetComparisonRequest request;
  request.set_job(context.JobName(job));
  v1::Comparisons answer;
  const absl::Status status =
      context.Call(context.results(), &v1::ResultService::Stub::GetComparison, request, &answer);
  if (!status.ok()) return context.Fail(status);
  if (context.json) return context.PrintJson(answer);
  for (const v1::Comparison& comparison : answer.comparisons()) {
    std::printf("\n%s %s against %s %s\n", comparison.model_b().c_str(),
                comparison.task_b().c_str(), comparison.model_a().c_str(),
                comparison.task_a().c_str());
    PrintComparison(context, comparison);
  }
}

}  // namespace

void AddCompare(CLI::App& app, Context& context) {
  struct Flags {
    std::string job_a;
    std::string job_b;
    std::vector<std::string> scores = {"output_norm_ln"};
    std::string against;
    double fraction = .1;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("compare", "scores of two jobs: two models, tasks, checkpoints or scores");
  command->add_option("job", flags->job_a, "compare, score or sweep job")->required();
  command->add_option("other", flags->job_b,
                      "the one it is held against; none where the first is a compare job");
  command->add_option("--scores", flags->scores, "score ids with commas between them")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--against", flags->against,
                      "the other job's score, where it is another one");
  command
      ->add_option("--fraction", flags->fraction,
                   "heads count as inactive at this fraction of each job's own scores")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->footer(
      "Example: headcount compare k3v9x2m4qp 7w2n5rt8ab --scores entropy,output_norm_ln");
  command->callback([&context, flags] {
    if (flags->job_b.empty()) return ShowSides(context, flags->job_a);
    v1::CompareScoresRequest request;
    request.set_job_a(context.JobName(flags->job_a));
    request.set_job_b(context.JobName(flags->job_b));
    for (const std::string& score : flags->scores) request.add_scores(score);
    request.set_score_b(flags->against);
    request.set_fraction(flags->fraction);
    v1::Comparison answer;
    const absl::Status status =
        context.Call(context.results(), &v1::ResultService::Stub::CompareScores, request, &answer);
    if (!status.ok()) return context.Fail(status);
    if (context.json) return context.PrintJson(answer);
    PrintComparison(context, answer);
  });
}

}  // namespace headcount::cli
