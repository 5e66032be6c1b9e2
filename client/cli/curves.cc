// `headcount curves`: accuracy over the share of heads zeroed, as a picture and a table.

#include <cmath>
#include <memory>

#include "absl/strings/str_format.h"
#include "client/cli/chart.h"
#include "client/cli/commands.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

std::string Percent(double fraction, int decimals = 1) {
  return std::isfinite(fraction) ? absl::StrFormat("%.*f", decimals, 100 * fraction) : "-";
}

std::string Plain(double value, const char* format = "%.2f") {
  if (!std::isfinite(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

void Print(Context& context, const v1::Curves& curves, bool points, bool chart) {
  const Style& style = context.style();
  const v1::CurvePoint& base = curves.baseline();
  std::printf("baseline: accuracy %s %% +- %s over %lld documents%s\n",
              Percent(base.accuracy()).c_str(), Percent(base.standard_error()).c_str(),
              static_cast<long long>(base.documents()),
              curves.complete() ? "" : "  (the job still runs: these are the results so far)");
  if (chart) {
    Chart picture;
    picture.x_title = "% of heads zeroed";
    picture.y_title = "accuracy, %";
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
  using Align = Table::Align;
  Table summary(
      {{"score"},
       {"AUC", Align::kRight},
       {"AUC common", Align::kRight},
       {"AUC 10", Align::kRight},
       {absl::StrFormat("%% of heads within %g", curves.margin_points()), Align::kRight}});
  for (const v1::Curve& curve : curves.curves()) {
    summary.AddRow({curve.id(), Plain(curve.auc()), Plain(curve.auc_common()),
                    Plain(curve.auc_10()),
                    (curve.at_least() ? ">= " : "") + Percent(curve.largest_share())});
  }
  std::printf("%s", summary.Render(style).c_str());
  if (curves.in_sample()) {
    std::printf("%s\n",
                Dim(style, "thresholds were chosen on the documents that evaluate them").c_str());
  }
  if (!points) return;
  Table table({{"score"},
               {"nominal %", Align::kRight},
               {"threshold", Align::kRight},
               {"zeroed %", Align::kRight},
               {"accuracy %", Align::kRight},
               {"+-", Align::kRight},
               {"vs. baseline", Align::kRight},
               {"+-", Align::kRight},
               {"McNemar p", Align::kRight},
               {"flips -/+", Align::kRight},
               {"d log-lik.", Align::kRight},
               {"n", Align::kRight}});
  for (const v1::Curve& curve : curves.curves()) {
    for (const v1::CurvePoint& point : curve.points()) {
      if (point.rule() < 0) continue;
      table.AddRow({curve.id(), Percent(point.nominal_fraction()), Plain(point.threshold(), "%.4g"),
                    Percent(point.share_zeroed()), Percent(point.accuracy()),
                    Percent(point.standard_error()), Percent(point.difference()),
                    Percent(point.difference_standard_error()), Plain(point.mcnemar_p(), "%.3g"),
                    absl::StrFormat("%d/%d", point.flips_to_wrong(), point.flips_to_right()),
                    Plain(point.gold_log_likelihood_change(), "%.3f"),
                    absl::StrFormat("%d", point.documents())});
    }
  }
  std::printf("\n%s", table.Render(style).c_str());
}

}  // namespace

void AddCurves(CLI::App& app, Context& context) {
  struct Flags {
    std::string job;
    double margin = 1;
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
  command->add_flag("--points", flags->points, "every point with its statistics");
  command->add_flag("--no-chart", flags->no_chart, "tables only");
  command->footer("Example: headcount curves k3v9x2m4qp --points");
  command->callback([&context, flags] {
    v1::GetCurvesRequest request;
    request.set_job(context.JobName(flags->job));
    request.set_margin_points(flags->margin);
    v1::Curves curves;
    const absl::Status status =
        context.Call(context.results(), &v1::ResultService::Stub::GetCurves, request, &curves);
    if (!status.ok()) return context.Fail(status);
    if (context.json) return context.PrintJson(curves);
    Print(context, curves, flags->points, !flags->no_chart);
  });
}

}  // namespace headcount::cli
