// See published.h.

#include "server/paper/published.h"

#include <cmath>
#include <limits>
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
#include "server/results/ranks.h"

namespace headcount::paper {
namespace {

using json = nlohmann::ordered_json;  // the paper's order
using results::CurveMetric;
using results::CurveSummary;
using results::Point;

constexpr double kDefaultMargin = 1;  // percentage points
constexpr int kTop = 5;
constexpr const char* kFirstToken = "first_token_weight";

struct Ranked {
  const char* name;
  CurveMetric metric;
};
constexpr Ranked kRanked[] = {{"auc", CurveMetric::kAuc},
                              {"auc_common", CurveMetric::kAucCommon},
                              {"auc_10", CurveMetric::kAuc10}};

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

// A model's numbers of each metric, one a curve in catalogue order.
struct Analysed {
  std::vector<CurveSummary> summaries;
  std::vector<double> Values(CurveMetric metric) const {
    std::vector<double> values;
    for (const CurveSummary& summary : summaries) values.push_back(summary.of(metric));
    return values;
  }
};

// Ranks with what is missing (a curve that ends before 10 %) at the end.
std::vector<double> Comparable(std::vector<double> values) {
  for (double& value : values) {
    if (std::isnan(value)) value = -std::numeric_limits<double>::infinity();
  }
  return values;
}

void AddTable2(v1::PublishedModel* model) {
  v1::PublishedTable2& table = *model->mutable_table2();
  double best = -1;
  double best_other = -1;
  for (const v1::PublishedCurve& curve : model->curves()) {
    const double share = curve.largest_share();
    if (share > best) {
      best = share;
      table.set_best_score(curve.score());
    }
    if (curve.score() == kFirstToken) {
      table.set_first_token_weight(share);
    } else if (share > best_other) {
      best_other = share;
      table.set_best_other(curve.score());
      table.set_best_other_share(share);
    }
  }
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

Analysed AddModel(const std::string& name, const json& data, double margin, v1::Published* answer) {
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
  Analysed analysed;
  double limit = 0;
  analysed.summaries = results::SummariseCurves(polylines, baseline - margin, &limit);
  model.set_auc_common_limit(limit / 100);
  for (int c = 0; c < model.curves_size(); ++c) {
    const CurveSummary& summary = analysed.summaries[static_cast<size_t>(c)];
    v1::PublishedCurve& curve = *model.mutable_curves(c);
    curve.set_auc(summary.of(CurveMetric::kAuc));
    curve.set_auc_common(summary.of(CurveMetric::kAucCommon));
    curve.set_auc_10(summary.of(CurveMetric::kAuc10));
    curve.set_largest_share(summary.within.largest / 100);
    curve.set_at_least(summary.within.at_least);
  }
  for (const Ranked& ranked : kRanked) {
    const std::vector<double> ranks =
        results::RanksFromLargest(Comparable(analysed.Values(ranked.metric)));
    for (int c = 0; c < model.curves_size(); ++c) {
      (*model.mutable_curves(c)->mutable_ranks())[ranked.name] = ranks[static_cast<size_t>(c)];
    }
  }
  AddTable2(&model);
  AddThresholds(data.at("thresholds"), &model);
  return analysed;
}

void AddAgreement(const std::vector<Analysed>& models, v1::Published* answer) {
  for (size_t a = 0; a < models.size(); ++a) {
    for (size_t b = a + 1; b < models.size(); ++b) {
      for (const Ranked& ranked : kRanked) {
        const std::vector<double> of_a = Comparable(models[a].Values(ranked.metric));
        const std::vector<double> of_b = Comparable(models[b].Values(ranked.metric));
        v1::ModelAgreement& agreement = *answer->add_agreements();
        agreement.set_a(answer->models(static_cast<int>(a)).model());
        agreement.set_b(answer->models(static_cast<int>(b)).model());
        agreement.set_metric(ranked.name);
        agreement.set_spearman(results::Spearman(of_a, of_b));
        agreement.set_top5_overlap(results::TopOverlap(of_a, of_b, kTop));
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
  const double margin = request.margin_points() == 0 ? kDefaultMargin : request.margin_points();
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
  std::vector<Analysed> models;
  for (const auto& [name, data] : Data().at("models").items()) {
    if (!only.empty() && name != only) continue;
    models.push_back(AddModel(name, data, margin, &answer));
  }
  AddAgreement(models, &answer);
  return answer;
}

}  // namespace headcount::paper
