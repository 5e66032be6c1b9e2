// `headcount curves`: accuracy over the share of heads zeroed, as a picture and a table.

#include <cmath>
#include <memory>
#include <string_view>

#include "absl/strings/str_format.h"
#include "client/cli/chart.h"
#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/paper.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

std::string Plain(double value, const char* format = "%.2f") {
  if (!std::isfinite(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Between(const v1::Interval& interval, double scale, int decimals) {
  if (!std::isfinite(interval.low()) || !std::isfinite(interval.high())) return "";
  return absl::StrFormat(" [%.*f, %.*f]", decimals, scale * interval.low(), decimals,
                         scale * interval.high());
}

const v1::MetricEstimate* Find(const google::protobuf::RepeatedPtrField<v1::MetricEstimate>& all,
                               std::string_view metric) {
  for (const v1::MetricEstimate& each : all) {
    if (each.metric() == metric) return &each;
  }
  return nullptr;
}

// A curve's number with its interval where the server gave one.
std::string WithInterval(const v1::Curve& curve, std::string_view metric, std::string value,
                         double scale, int decimals) {
  const v1::MetricEstimate* estimate = Find(curve.estimates(), metric);
  return estimate == nullptr ? value : value + Between(estimate->interval(), scale, decimals);
}

std::string Rank(const v1::Curve& curve) {
  const v1::MetricEstimate* estimate = Find(curve.estimates(), "auc_common");
  if (estimate == nullptr || !std::isfinite(estimate->rank())) return "-";
  return absl::StrFormat("%g", estimate->rank()) + Between(estimate->rank_interval(), 1, 0);
}

void PrintSummary(const Style& style, const v1::Curves& curves) {
  using Align = Table::Align;
  Table summary({{"score"},
                 {"AUC", Align::kRight},
                 {"AUC common", Align::kRight},
                 {"AUC 10", Align::kRight},
                 {"rank", Align::kRight},
                 {absl::StrFormat("% of heads within %g", curves.margin_points()), Align::kRight},
                 {"certified %", Align::kRight}});
  for (const v1::Curve& curve : curves.curves()) {
    const std::string share = (curve.at_least() ? ">= " : "") + Percent(curve.largest_share());
    summary.AddRow({curve.id(), WithInterval(curve, "auc", Plain(curve.auc()), 1, 1),
                    WithInterval(curve, "auc_common", Plain(curve.auc_common()), 1, 1),
                    WithInterval(curve, "auc_10", Plain(curve.auc_10()), 1, 1), Rank(curve),
                    WithInterval(curve, "largest_share", share, 100, 1),
                    Percent(curve.certified_share())});
  }
  std::printf("%s", summary.Render(style).c_str());
  const auto note = [&style](const std::string& text) {
    std::printf("%s\n", Dim(style, text).c_str());
  };
  if (curves.bootstrap_draws() > 0) {
    note(
        absl::StrFormat("[low, high]: 95 %% intervals, paired bootstrap over documents, %d draws; "
                        "rank by AUC common",
                        curves.bootstrap_draws()));
  }
  if (curves.in_sample()) note("thresholds were chosen on the documents that evaluate them");
}

std::string Range(double low, double high, double scale, const char* format) {
  return "[" + Plain(scale * low, format) + ", " + Plain(scale * high, format) + "]";
}

void PrintPoints(const Style& style, const v1::Curves& curves) {
  using Align = Table::Align;
  Table table({{"score"},
               {"nominal %", Align::kRight},
               {"threshold", Align::kRight},
               {"zeroed %", Align::kRight},
               {"accuracy %", Align::kRight},
               {"+-", Align::kRight},
               {"acc_norm %", Align::kRight},
               {"vs. baseline", Align::kRight},
               {"95 %", Align::kRight},
               {"p Holm", Align::kRight},
               {"McNemar Holm", Align::kRight},
               {"flips -/+", Align::kRight},
               {"d log-lik.", Align::kRight},
               {"95 %", Align::kRight},
               {"margin", Align::kRight},
               {"n", Align::kRight}});
  for (const v1::Curve& curve : curves.curves()) {
    for (const v1::CurvePoint& point : curve.points()) {
      if (point.rule() < 0) continue;
      table.AddRow({curve.id(), Percent(point.nominal_fraction()), Plain(point.threshold(), "%.4g"),
                    Percent(point.share_zeroed()), Percent(point.accuracy()),
                    Percent(point.standard_error()), Percent(point.accuracy_norm()),
                    Percent(point.difference()),
                    Range(point.difference_low(), point.difference_high(), 100, "%.1f"),
                    Plain(point.difference_p_holm(), "%.3g"), Plain(point.mcnemar_p_holm(), "%.3g"),
                    absl::StrFormat("%d/%d", point.flips_to_wrong(), point.flips_to_right()),
                    Plain(point.gold_log_likelihood_change(), "%.3f"),
                    Range(point.gold_log_likelihood_change_low(),
                          point.gold_log_likelihood_change_high(), 1, "%.3f"),
                    Percent(point.smallest_margin()), absl::StrFormat("%d", point.documents())});
    }
  }
  std::printf("\n%s", table.Render(style).c_str());
  std::printf("%s\n", Dim(style,
                          "flips -/+: right to wrong / wrong to right; p adjusted over all points; "
                          "margin: smallest loss in points that n and the flips could exclude")
                          .c_str());
}

std::string Choice(const v1::FoldChoice& choice) {
  if (choice.rule() < 0) return "the baseline alone";
  const std::string at = std::isfinite(choice.nominal_fraction())
                             ? absl::StrFormat(" at %s %%", Percent(choice.nominal_fraction()))
                             : absl::StrFormat(" (rule %d)", choice.rule());
  return choice.score() + at;
}

// What is chosen on some documents, measured on others.
void PrintCrossFit(const Style& style, const v1::CrossFit& fit, double margin) {
  using Align = Table::Align;
  Table table({{"fold", Align::kRight},
               {"chosen on the others"},
               {"documents", Align::kRight},
               {"zeroed %", Align::kRight},
               {"vs. baseline", Align::kRight}});
  const auto add = [&table](const std::string& name, const v1::FoldChoice& choice) {
    table.AddRow({name, Choice(choice), absl::StrFormat("%d", choice.documents()),
                  Percent(choice.share_zeroed()), Percent(choice.difference())});
  };
  for (int i = 0; i < fit.folds_size(); ++i) add(absl::StrFormat("%d", i + 1), fit.folds(i));
  add("in sample", fit.in_sample());
  std::printf("\n%s", table.Render(style).c_str());
  std::printf("held out: %s %% of heads zeroed, %s points against the baseline %s\n",
              Percent(fit.share_zeroed()).c_str(), Percent(fit.difference()).c_str(),
              Range(fit.difference_low(), fit.difference_high(), 100, "%.1f").c_str());
  std::printf("%s\n",
              Dim(style, absl::StrFormat("each fold takes the point that zeroes most within "
                                         "%g points of the baseline on the other folds",
                                         margin))
                  .c_str());
}

// Curves of a metric that is no share of right answers: what each rule does to the texts.
void PrintPerplexity(const Style& style, const v1::Curves& curves, bool chart) {
  using Align = Table::Align;
  std::printf("baseline: %s %s over %lld documents%s\n", curves.metric().c_str(),
              Plain(curves.baseline().perplexity(), "%.4g").c_str(),
              static_cast<long long>(curves.baseline().documents()),
              curves.complete() ? "" : "  (the job still runs: these are the results so far)");
  Chart picture;
  picture.x_title = "% of heads zeroed";
  picture.y_title = curves.metric();
  picture.reference = curves.baseline().perplexity();
  Table table({{"rule"},
               {"zeroed %", Align::kRight},
               {curves.metric(), Align::kRight},
               {"d log-lik. of a document", Align::kRight},
               {"95 %", Align::kRight},
               {"n", Align::kRight}});
  for (const v1::Curve& curve : curves.curves()) {
    ChartLine line{curve.id(), {}, {}};
    for (const v1::CurvePoint& point : curve.points()) {
      line.x.push_back(100 * point.share_zeroed());
      line.y.push_back(point.perplexity());
      if (point.rule() < 0) continue;
      table.AddRow({curve.id(), Percent(point.share_zeroed()), Plain(point.perplexity(), "%.4g"),
                    Plain(point.gold_log_likelihood_change(), "%.3f"),
                    Range(point.gold_log_likelihood_change_low(),
                          point.gold_log_likelihood_change_high(), 1, "%.3f"),
                    absl::StrFormat("%d", point.documents())});
    }
    picture.lines.push_back(std::move(line));
  }
  if (chart) std::printf("\n%s\n", RenderChart(style, picture).c_str());
  std::printf("%s", table.Render(style).c_str());
}

void Print(Context& context, const v1::Curves& curves, bool points, bool chart) {
  const Style& style = context.style();
  if (std::isfinite(curves.baseline().perplexity())) return PrintPerplexity(style, curves, chart);
  const v1::CurvePoint& base = curves.baseline();
  const bool plain = curves.metric().empty() || curves.metric() == "acc";
  const std::string measure = plain ? "accuracy" : curves.metric();
  std::printf("baseline: %s %s %% +- %s over %lld documents%s\n", measure.c_str(),
              Percent(base.accuracy()).c_str(), Percent(base.standard_error()).c_str(),
              static_cast<long long>(base.documents()),
              curves.complete() ? "" : "  (the job still runs: these are the results so far)");
  if (std::isfinite(base.accuracy_norm()) && plain) {
    std::printf("          acc_norm %s %% (--metric acc_norm for its curves)\n",
                Percent(base.accuracy_norm()).c_str());
  }
  if (chart) {
    Chart picture;
    picture.x_title = "% of heads zeroed";
    picture.y_title = measure + ", %";
    picture.reference = 100 * base.accuracy();
    for (const v1::Curve& curve : curves.curves()) {
      ChartLine line{curve.id(), {}, {}};
      for (const v1::CurvePoint& point : curve.points()) {
        line.x.push_back(100 * point.share_zeroed());
        line.y.push_back(100 * point.accuracy());
      }
      picture.lines.push_back(std::move(line));
    }
    std::printf("\n%s\n", RenderChart(style, picture).c_str());
  }
  PrintSummary(style, curves);
  if (curves.has_cross_fit()) PrintCrossFit(style, curves.cross_fit(), curves.margin_points());
  PrintPublishedBeside(context, curves);
  if (points) PrintPoints(style, curves);
}

}  // namespace

void AddCurves(CLI::App& app, Context& context) {
  struct Flags {
    std::string job;
    double margin = 1;
    std::string metric;
    int bootstrap = 2'000;
    uint64_t seed = 0;
    int cross_fit = 0;
    bool points = false;
    bool no_chart = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("curves", "accuracy over the share of heads zeroed");
  command->add_option("job", flags->job, "sweep or ablate job")->required();
  command
      ->add_option("--margin", flags->margin,
                   "percentage points below the baseline that count as within")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--bootstrap", flags->bootstrap,
                   "draws for the intervals of areas, shares and ranks, once the job is complete; "
                   "0: none")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  command->add_option("--bootstrap-seed", flags->seed, "seed of the draws")->capture_default_str();
  command->add_option("--metric", flags->metric,
                      "what counts as right, e.g. acc_norm (default: the task's first metric; "
                      "headcount tasks)");
  command
      ->add_option("--cross-fit", flags->cross_fit,
                   "folds: choose score and share on the other folds' documents, measure on the "
                   "fold's own")
      ->check(CLI::Range(2, 100));
  command->add_flag("--points", flags->points, "every point with its statistics");
  command->add_flag("--no-chart", flags->no_chart, "tables only");
  command->footer("Example: headcount curves k3v9x2m4qp --points");
  command->callback([&context, flags] {
    v1::GetCurvesRequest request;
    request.set_job(context.JobName(flags->job));
    request.set_margin_points(flags->margin);
    request.set_metric(flags->metric);
    request.set_bootstrap_draws(flags->bootstrap);
    request.set_bootstrap_seed(flags->seed);
    request.set_cross_fit(flags->cross_fit);
    v1::Curves curves;
    const absl::Status status =
        context.Call(context.results(), &v1::ResultService::Stub::GetCurves, request, &curves);
    if (!status.ok()) return context.Fail(status);
    if (context.json) return context.PrintJson(curves);
    Print(context, curves, flags->points, !flags->no_chart);
  });
}

}  // namespace headcount::cli
