// `headcount paper`: what the paper published for its 14 models, and the same beside a user's own
// curves.

#include "client/cli/paper.h"

#include <memory>

#include "absl/strings/str_format.h"
#include "client/cli/chart.h"
#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

using Align = Table::Align;

const v1::PublishedCurve* Find(const v1::PublishedModel& model, const std::string& score) {
  for (const v1::PublishedCurve& curve : model.curves()) {
    if (curve.score() == score) return &curve;
  }
  return nullptr;
}

void PrintNote(const Style& style, const v1::PublishedModel& model) {
  if (model.note().empty()) return;
  std::printf("%s\n", Dim(style, model.model() + ": " + model.note()).c_str());
}

// Table 2 and the agreement of all models.
void PrintAll(const Style& style, const v1::Published& answer) {
  Table table(
      {{"model"},
       {"baseline %", Align::kRight},
       {"best AUC"},
       {"AUC", Align::kRight},
       {absl::StrFormat("first token, %% within %g", answer.margin_points()), Align::kRight},
       {"best other"},
       {"% within", Align::kRight}});
  for (const v1::PublishedModel& model : answer.models()) {
    const v1::PublishedCurve* best = nullptr;
    for (const v1::PublishedCurve& curve : model.curves()) {
      if (best == nullptr || curve.auc() > best->auc()) best = &curve;
    }
    table.AddRow({model.model(), Number(100 * model.baseline_accuracy()),
                  best == nullptr ? "-" : best->score(),
                  best == nullptr ? "-" : Number(best->auc()),
                  Number(100 * model.table2().first_token_weight()), model.table2().best_other(),
                  Number(100 * model.table2().best_other_share())});
  }
  std::printf("%s", table.Render(style).c_str());
  double lowest = 1;
  double sum = 0;
  double overlap = 0;
  int pairs = 0;
  for (const v1::ModelAgreement& agreement : answer.agreements()) {
    if (agreement.metric() != "auc") continue;
    lowest = std::min(lowest, agreement.spearman());
    sum += agreement.spearman();
    overlap += agreement.top5_overlap();
    ++pairs;
  }
  if (pairs > 0) {
    std::printf(
        "ranks of the scores by AUC, between models: Spearman %.2f on average, %.2f at least; top "
        "5 "
        "overlap %.2f\n",
        sum / pairs, lowest, overlap / pairs);
  }
}

void PrintOne(const Style& style, const v1::PublishedModel& model, double margin) {
  Chart picture;
  picture.x_title = "% of heads zeroed";
  picture.y_title = "accuracy, %";
  picture.reference = 100 * model.baseline_accuracy();
  Table table({{"score"},
               {"AUC", Align::kRight},
               {"AUC common", Align::kRight},
               {"AUC 10", Align::kRight},
               {"rank", Align::kRight},
               {absl::StrFormat("%% of heads within %g", margin), Align::kRight}});
  for (const v1::PublishedCurve& curve : model.curves()) {
    ChartLine line{curve.score(), {}, {}};
    for (const v1::PublishedPoint& point : curve.points()) {
      line.x.push_back(100 * point.share_zeroed());
      line.y.push_back(100 * point.accuracy());
    }
    picture.lines.push_back(std::move(line));
    const auto rank = curve.ranks().find("auc");
    table.AddRow({curve.score(), Number(curve.auc()), Number(curve.auc_common()),
                  Number(curve.auc_10()),
                  rank == curve.ranks().end() ? "-" : absl::StrFormat("%g", rank->second),
                  (curve.at_least() ? ">= " : "") + Number(100 * curve.largest_share(), 4)});
  }
  std::printf("%s: baseline %s %%\n\n%s\n%s", model.model().c_str(),
              Number(100 * model.baseline_accuracy()).c_str(), RenderChart(style, picture).c_str(),
              table.Render(style).c_str());
}

}  // namespace

void PrintPublishedBeside(Context& context, const v1::Curves& curves) {
  if (curves.published_model().empty()) return;
  v1::GetPublishedRequest request;
  request.set_model(curves.published_model());
  request.set_margin_points(curves.margin_points());
  v1::Published answer;
  const absl::Status status =
      context.Call(context.results(), &v1::ResultService::Stub::GetPublished, request, &answer);
  if (!status.ok() || answer.models_size() != 1) return;  // beside the point, so no error
  const v1::PublishedModel& model = answer.models(0);
  Table table({{"published for MMLU, 5-shot"},
               {"AUC", Align::kRight},
               {"AUC common", Align::kRight},
               {"AUC 10", Align::kRight},
               {absl::StrFormat("%% of heads within %g", answer.margin_points()), Align::kRight}});
  for (const v1::Curve& own : curves.curves()) {
    const v1::PublishedCurve* curve = Find(model, own.id());
    if (curve == nullptr) continue;
    table.AddRow({curve->score(), Number(curve->auc()), Number(curve->auc_common()),
                  Number(curve->auc_10()),
                  (curve->at_least() ? ">= " : "") + Number(100 * curve->largest_share())});
  }
  if (table.empty()) return;
  std::printf("\n%s%s\n", table.Render(context.style()).c_str(),
              Dim(context.style(),
                  "arXiv 2504.03889; its own runs of one model differ by up to .17 "
                  "points without any head zeroed")
                  .c_str());
  PrintNote(context.style(), model);
}

void AddPaper(CLI::App& app, Context& context) {
  struct Flags {
    std::string model;
    double margin = 1;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("paper", "the curves that arXiv 2504.03889 published for 14 models");
  command->add_option("model", flags->model, "one of them, with its curves (default: table 2)");
  command
      ->add_option("--margin", flags->margin,
                   "percentage points below the baseline that count as within")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->footer("Example: headcount paper Llama-3.1-8B");
  command->callback([&context, flags] {
    v1::GetPublishedRequest request;
    request.set_model(flags->model);
    request.set_margin_points(flags->margin);
    v1::Published answer;
    const absl::Status status =
        context.Call(context.results(), &v1::ResultService::Stub::GetPublished, request, &answer);
    if (!status.ok()) return context.Fail(status);
    if (context.json) return context.PrintJson(answer);
    if (flags->model.empty()) {
      PrintAll(context.style(), answer);
    } else {
      for (const v1::PublishedModel& model : answer.models()) {
        PrintOne(context.style(), model, answer.margin_points());
      }
    }
    for (const v1::PublishedModel& model : answer.models()) PrintNote(context.style(), model);
    std::printf("%s\n", Dim(context.style(), answer.source()).c_str());
  });
}

}  // namespace headcount::cli
