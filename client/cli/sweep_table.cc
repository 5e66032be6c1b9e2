// `headcount table`: the curves of a sweep over several models and tasks side by side.

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/chart.h"
#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

using Align = Table::Align;

const v1::Curve* Find(const v1::SweepSide& side, const std::string& score) {
  for (const v1::Curve& curve : side.curves().curves()) {
    // What heads become may follow the score's name.
    if (curve.id() == score || absl::StartsWith(curve.id(), score + " ")) return &curve;
  }
  return nullptr;
}

std::string Share(const v1::Curve* curve) {
  if (curve == nullptr) return "-";
  return (curve->at_least() ? ">= " : "") + Percent(curve->largest_share());
}

// The score that zeroes most within the margin on the first side that has an answer.
std::string BestScore(const v1::SweepTable& answer) {
  for (const v1::SweepSide& side : answer.sides()) {
    if (!side.table2().best_score().empty()) return side.table2().best_score();
  }
  for (const v1::SweepSide& side : answer.sides()) {
    if (side.curves().curves_size() > 0) return side.curves().curves(0).id();
  }
  return "";
}

// Table 2 of the paper, a line a side.
void PrintSides(const Style& style, const v1::SweepTable& answer) {
  const std::string within = absl::StrFormat("%% within %g", answer.margin_points());
  Table table({{"#", Align::kRight},
               {"side"},
               {"job"},
               {"documents", Align::kRight},
               {"baseline %", Align::kRight},
               {"first token, " + within, Align::kRight},
               {"best other"},
               {within, Align::kRight}});
  for (int i = 0; i < answer.sides_size(); ++i) {
    const v1::SweepSide& side = answer.sides(i);
    const bool any = side.has_curves();
    const bool complete = side.curves().complete();
    table.AddRow({absl::StrCat(i + 1), side.label(), Context::ShortName(side.job()),
                  any ? absl::StrCat(side.curves().baseline().documents()) : "-",
                  any ? Percent(side.curves().baseline().accuracy()) : "-",
                  Share(Find(side, "first_token_weight")),
                  complete && !side.table2().best_other().empty() ? side.table2().best_other()
                  : complete                                      ? "-"
                                                                  : "(still runs)",
                  complete && !side.table2().best_other().empty()
                      ? Share(Find(side, side.table2().best_other()))
                      : "-"});
  }
  std::printf("%s", table.Render(style).c_str());
}

// Ranks of the scores, a column a side by its number.
void PrintRanks(const Style& style, const v1::SweepTable& answer) {
  std::vector<Table::Column> columns = {{"rank by AUC common"}};
  std::set<std::string> scores;
  for (int i = 0; i < answer.sides_size(); ++i) {
    columns.push_back({absl::StrCat(i + 1), Align::kRight});
    for (const auto& [score, ranks] : answer.sides(i).ranks()) scores.insert(score);
  }
  if (scores.size() < 2) return;
  Table table(columns);
  for (const std::string& score : scores) {
    std::vector<std::string> row = {score};
    for (const v1::SweepSide& side : answer.sides()) {
      const auto ranks = side.ranks().find(score);
      row.push_back(ranks == side.ranks().end()
                        ? "-"
                        : absl::StrFormat("%g", ranks->second.by().at("auc_common")));
    }
    table.AddRow(std::move(row));
  }
  std::printf("\n%s", table.Render(style).c_str());
}

void PrintAgreements(const Style& style, const v1::SweepTable& answer) {
  Table table({{"ranks agree"},
               {"Spearman AUC", Align::kRight},
               {"common", Align::kRight},
               {"10", Align::kRight},
               {"top 5, AUC", Align::kRight},
               {"common", Align::kRight},
               {"10", Align::kRight}});
  const int metrics = 3;
  for (int i = 0; i + metrics <= answer.agreements_size(); i += metrics) {
    std::vector<std::string> row = {
        absl::StrCat(answer.agreements(i).a(), " / ", answer.agreements(i).b())};
    for (int m = 0; m < metrics; ++m) row.push_back(Number(answer.agreements(i + m).spearman()));
    for (int m = 0; m < metrics; ++m) {
      row.push_back(Number(answer.agreements(i + m).top5_overlap()));
    }
    table.AddRow(std::move(row));
  }
  if (!table.empty()) std::printf("\n%s", table.Render(style).c_str());
}

// Of one score: thresholds of a task down, evaluated on a task across.
void PrintTransfer(const Style& style, const v1::SweepTable& answer, const std::string& score) {
  std::map<std::string, std::vector<const v1::SweepSide*>> by_model;
  std::vector<std::string> tasks;  // as the sides have them
  for (const v1::SweepSide& side : answer.sides()) {
    by_model[side.model()].push_back(&side);
    if (std::find(tasks.begin(), tasks.end(), side.task()) == tasks.end()) {
      tasks.push_back(side.task());
    }
  }
  for (const auto& [model, sides] : by_model) {
    std::map<std::pair<std::string, std::string>, const v1::SweepSide*> cells;
    bool transfers = false;
    for (const v1::SweepSide* side : sides) {
      const bool own = side->calibrated_on().empty();
      cells[{own ? side->task() : side->calibrated_on(), side->task()}] = side;
      transfers = transfers || !own;
    }
    if (!transfers || tasks.size() < 2) continue;
    std::vector<Table::Column> columns = {{"thresholds of"}};
    for (const std::string& task : tasks) columns.push_back({"on " + task, Align::kRight});
    Table table(columns);
    std::set<std::string> from;
    for (const auto& [cell, side] : cells) from.insert(cell.first);
    for (const std::string& calibration : from) {
      std::vector<std::string> row = {calibration};
      for (const std::string& task : tasks) {
        const auto at = cells.find({calibration, task});
        row.push_back(at == cells.end() ? "-" : Share(Find(*at->second, score)));
      }
      table.AddRow(std::move(row));
    }
    std::printf("\n%s%s", table.Render(style).c_str(),
                Dim(style, absl::StrFormat("%s, %s: %% of heads within %g points of the "
                                           "baseline\n",
                                           model, score, answer.margin_points()))
                    .c_str());
  }
}

// What each side loses under one score.
void PrintChart(const Style& style, const v1::SweepTable& answer, const std::string& score) {
  Chart picture;
  picture.x_title = "% of heads zeroed by " + score;
  picture.y_title = "accuracy less baseline, points";
  picture.reference = 0;
  constexpr size_t kMostLines = 20;
  for (const v1::SweepSide& side : answer.sides()) {
    const v1::Curve* curve = Find(side, score);
    if (curve == nullptr || picture.lines.size() == kMostLines) continue;
    ChartLine line{side.label(), {}, {}};
    for (const v1::CurvePoint& point : curve->points()) {
      line.x.push_back(100 * point.share_zeroed());
      line.y.push_back(100 * point.difference());
    }
    picture.lines.push_back(std::move(line));
  }
  if (!picture.lines.empty()) std::printf("\n%s\n", RenderChart(style, picture).c_str());
}

}  // namespace

void AddTable(CLI::App& app, Context& context) {
  struct Flags {
    std::string job;
    std::string score;
    double margin = 1;
    bool no_chart = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("table", "a sweep over several models and tasks, side by side");
  command->add_option("job", flags->job, "sweep job with several models or tasks")->required();
  command->add_option("--score", flags->score,
                      "whose curves are drawn and whose transfer is shown (default: the one that "
                      "zeroes most on the first side)");
  command
      ->add_option("--margin", flags->margin,
                   "percentage points below the baseline that count as within")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--no-chart", flags->no_chart, "tables only");
  command->footer("Example: headcount table k3v9x2m4qp --score output_norm_ln");
  command->callback([&context, flags] {
    v1::GetSweepTableRequest request;
    request.set_job(context.JobName(flags->job));
    request.set_margin_points(flags->margin);
    v1::SweepTable answer;
    const absl::Status status =
        context.Call(context.results(), &v1::ResultService::Stub::GetSweepTable, request, &answer);
    if (!status.ok()) return context.Fail(status);
    if (context.json) return context.PrintJson(answer);
    const Style& style = context.style();
    const std::string score = flags->score.empty() ? BestScore(answer) : flags->score;
    PrintSides(style, answer);
    if (!flags->no_chart) PrintChart(style, answer, score);
    PrintRanks(style, answer);
    PrintTransfer(style, answer, score);
    PrintAgreements(style, answer);
  });
}

}  // namespace headcount::cli
