// See published.h.

#include "server/paper/published.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"
#include "nlohmann/json.hpp"
#include "server/paper/published_data.h"
#include "server/results/curve_summary.h"
#include "server/results/curves.h"
#include "server/results/score_table.h"

namespace headcount::paper {
namespace {

using json = nlohmann::ordered_json;  // the paper's order
using results::CurveMetric;
using results::CurveSummary;
using results::Point;
using results::RankedCurve;

const json& Data() {
  static const json data = json::parse(kPublishedJson, nullptr, /*allow_exceptions=*/false);
  return data;
}

// Catalogue order, so that tables of models can be compared line by line.
std::vector<std::pair<const catalog::Score*, const json*>> InOrder(const json& by_alias) {
  std::vector<std::pair<const catalog::Score*, const json*>> found;
  for (const catalog::Score& score : catalog::Scores()) {
    const auto at = by_alias.find(score.alias);
    if (at != by_alias.end()) found.emplace_back(&score, &*at);
  }
  return found;
}

void AddThresholds(const json& by_task, v1::PublishedModel* model) {
  for (const auto& [task, by_alias] : by_task.items()) {
    for (const auto& [score, values] : InOrder(by_alias)) {
      v1::PublishedThresholds& thresholds = *model->add_thresholds();
      thresholds.set_task(task);
      thresholds.set_score(score->id);
      for (const json& value : *values) thresholds.add_values(value.get<double>());
    }
  }
}

// The model's curves, as tables take them.
std::vector<RankedCurve> AddModel(const std::string& name, const json& data, double margin,
                                  v1::Published* answer) {
  v1::PublishedModel& model = *answer->add_models();
  model.set_model(name);
  model.set_repository(data.at("repository").get<std::string>());
  model.set_note(data.value("note", ""));
  const double baseline = data.at("baseline").get<double>();
  model.set_baseline_accuracy(baseline / 100);
  std::vector<std::vector<Point>> polylines;
  for (const auto& [score, points] : InOrder(data.at("curves"))) {
    v1::PublishedCurve& curve = *model.add_curves();
    curve.set_score(score->id);
    std::vector<Point> polyline;
    for (const json& each : *points) {
      v1::PublishedPoint& point = *curve.add_points();
      point.set_threshold(each.at(0).get<double>());
      point.set_share_zeroed(each.at(1).get<double>() / 100);
      point.set_accuracy(each.at(2).get<double>() / 100);
      polyline.push_back({each.at(1).get<double>(), each.at(2).get<double>()});
    }
    polylines.push_back(results::SortedByX(polyline));
  }
  double limit = 0;
  const std::vector<CurveSummary> summaries =
      results::SummariseCurves(polylines, baseline - margin, &limit);
  model.set_auc_common_limit(limit / 100);
  std::vector<RankedCurve> ranked;
  for (int c = 0; c < model.curves_size(); ++c) {
    const CurveSummary& summary = summaries[static_cast<size_t>(c)];
    v1::PublishedCurve& curve = *model.mutable_curves(c);
    curve.set_auc(summary.of(CurveMetric::kAuc));
    curve.set_auc_common(summary.of(CurveMetric::kAucCommon));
    curve.set_auc_10(summary.of(CurveMetric::kAuc10));
    curve.set_largest_share(summary.within.largest / 100);
    curve.set_at_least(summary.within.at_least);
    ranked.push_back(results::RankedOf(curve.score(), curve));
  }
  for (size_t metric = 0; metric < results::kRankedMetrics.size(); ++metric) {
    const std::vector<double> ranks = results::RanksBy(ranked, metric);
    for (int c = 0; c < model.curves_size(); ++c) {
      (*model.mutable_curves(c)->mutable_ranks())[results::kRankedMetrics[metric]] =
          ranks[static_cast<size_t>(c)];
    }
  }
  *model.mutable_table2() = results::Table2(ranked);
  AddThresholds(data.at("thresholds"), &model);
  return ranked;
}

void AddAgreements(const std::vector<std::vector<RankedCurve>>& models, v1::Published* answer) {
  for (size_t a = 0; a < models.size(); ++a) {
    for (size_t b = a + 1; b < models.size(); ++b) {
      for (v1::ModelAgreement& agreement :
           results::Agreements(answer->models(static_cast<int>(a)).model(), models[a],
                               answer->models(static_cast<int>(b)).model(), models[b])) {
        *answer->add_agreements() = std::move(agreement);
      }
    }
  }
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, model] : Data().at("models").items()) names.push_back(name);
  return names;
}

}  // namespace

std::string PublishedName(std::string_view model) {
  const json& models = Data().at("models");
  for (const auto& [name, data] : models.items()) {
    if (model == name || model == data.at("repository").get<std::string>()) return name;
  }
  return "";
}

absl::StatusOr<v1::Published> GetPublished(const v1::GetPublishedRequest& request) {
  const double margin =
      request.margin_points() == 0 ? results::kDefaultMarginPoints : request.margin_points();
  if (!(margin >= 0 && margin <= 100)) {
    return InvalidField("margin_points", absl::StrCat(margin), "must be from 0 to 100");
  }
  const std::string only = PublishedName(request.model());
  if (!request.model().empty() && only.empty()) {
    return WithReason(
        absl::NotFoundError(absl::StrCat("the paper has no curves of model '", request.model(),
                                         "'; it has those of ", absl::StrJoin(Names(), ", "))),
        "MODEL_NOT_PUBLISHED");
  }
  v1::Published answer;
  answer.set_source(Data().at("source").get<std::string>());
  answer.set_margin_points(margin);
  std::vector<std::vector<RankedCurve>> models;
  for (const auto& [name, data] : Data().at("models").items()) {
    if (!only.empty() && name != only) continue;
    models.push_back(AddModel(name, data, margin, &answer));
  }
  AddAgreements(models, &answer);
  return answer;
}

}  // namespace headcount::paper
