// `headcount knockout`: what each head is worth alone, as a map, and which scores told it.

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/heat_map.h"
#include "client/cli/numbers.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

using Align = Table::Align;

// The heads whose loss is largest.
void PrintWorst(const Style& style, const v1::Knockout& knockout, int count) {
  std::vector<int> order;
  for (int head = 0; head < knockout.change_size(); ++head) {
    if (std::isfinite(knockout.change(head))) order.push_back(head);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&knockout](int a, int b) { return knockout.change(a) < knockout.change(b); });
  Table table({{"layer", Align::kRight},
               {"head", Align::kRight},
               {"d log-lik.", Align::kRight},
               {"95 %", Align::kRight},
               {"d accuracy", Align::kRight}});
  for (size_t i = 0; i < order.size() && i < static_cast<size_t>(count); ++i) {
    const int head = order[i];
    table.AddRow({absl::StrCat(head / knockout.heads()), absl::StrCat(head % knockout.heads()),
                  Number(knockout.change(head), 4),
                  absl::StrCat("[", Number(knockout.low(head), 4), ", ",
                               Number(knockout.high(head), 4), "]"),
                  Number(100 * knockout.accuracy_change(head), 1)});
  }
  std::printf("%s", table.Render(style).c_str());
}

void PrintAgreements(const Style& style, const v1::Knockout& knockout) {
  if (knockout.agreements().empty()) return;
  Table table({{"score"}, {"Spearman", Align::kRight}, {"AUROC", Align::kRight}});
  for (const v1::ScoreAgreement& agreement : knockout.agreements()) {
    table.AddRow(
        {agreement.score(), Number(agreement.spearman(), 3), Number(agreement.auroc(), 3)});
  }
  std::printf("\n%s%s\n", table.Render(style).c_str(),
              Dim(style,
                  "Spearman: a score's mean, turned so that larger is more active, against the "
                  "damage; AUROC: of telling the harmful heads")
                  .c_str());
}

void Print(Context& context, const v1::Knockout& knockout, int worst) {
  if (knockout.change_size() != knockout.layers() * knockout.heads() ||
      knockout.low_size() != knockout.change_size() ||
      knockout.high_size() != knockout.change_size() ||
      knockout.accuracy_change_size() != knockout.change_size()) {
    return context.Fail(absl::InternalError("the server's arrays do not fit its layers x heads"));
  }
  HeatMap map;
  map.layers = knockout.layers();
  map.heads = knockout.heads();
  map.kv_heads = knockout.kv_heads();
  map.values = {knockout.change().data(), static_cast<size_t>(knockout.change_size())};
  const std::string title =
      absl::StrCat("change of the gold log-likelihood when a head is zeroed alone  (",
                   knockout.documents(), " documents", knockout.complete() ? "" : ", so far", ")");
  map.title = title;
  map.unit = "nats";
  std::printf("%s\n", RenderHeatMap(context.style(), map).c_str());
  PrintWorst(context.style(), knockout, worst);
  std::printf("%lld heads are harmful to lose: their 95 %% interval lies below 0\n",
              static_cast<long long>(knockout.harmful_heads()));
  PrintAgreements(context.style(), knockout);
}

}  // namespace

void AddKnockout(CLI::App& app, Context& context) {
  struct Flags {
    std::string job;
    std::string score_job;
    int worst = 10;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("knockout", "what each head is worth alone, and which scores told it");
  command->add_option("job", flags->job, "knockout job")->required();
  command->add_option("--score-job", flags->score_job,
                      "job whose scores are held against it (default: the one it named)");
  command->add_option("--worst", flags->worst, "how many of the most harmful heads are listed")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->footer("Example: headcount knockout k3v9x2m4qp --score-job 7w2n5rt8ab");
  command->callback([&context, flags] {
    v1::GetKnockoutRequest request;
    request.set_job(context.JobName(flags->job));
    if (!flags->score_job.empty()) request.set_score_job(context.JobName(flags->score_job));
    v1::Knockout knockout;
    const absl::Status status =
        context.Call(context.results(), &v1::ResultService::Stub::GetKnockout, request, &knockout);
    if (!status.ok()) return context.Fail(status);
    if (context.json) return context.PrintJson(knockout);
    Print(context, knockout, flags->worst);
  });
}

}  // namespace headcount::cli
