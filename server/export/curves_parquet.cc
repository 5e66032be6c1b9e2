// See curves_parquet.h. Columns are a table of name and getter, so that a new field is one line.

#include "server/export/curves_parquet.h"

#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "arrow/array/builder_binary.h"
#include "arrow/array/builder_primitive.h"
#include "arrow/record_batch.h"
#include "arrow/status.h"
#include "arrow/type.h"
#include "common/base/status_macros.h"
#include "server/export/parquet_file.h"
#include "server/results/bootstrap.h"
#include "server/results/curves.h"

namespace headcount::exports {
namespace {

struct Row {
  const v1::Curves* curves;
  const v1::Curve* curve;
  const v1::CurvePoint* point;
};

template <typename Value>
struct Column {
  const char* name;
  Value (*get)(const Row&);
};

constexpr Column<double> kDoubles[] = {
    {"nominal_fraction", [](const Row& r) { return r.point->nominal_fraction(); }},
    {"threshold", [](const Row& r) { return r.point->threshold(); }},
    {"share_zeroed", [](const Row& r) { return r.point->share_zeroed(); }},
    {"accuracy", [](const Row& r) { return r.point->accuracy(); }},
    {"standard_error", [](const Row& r) { return r.point->standard_error(); }},
    {"accuracy_norm", [](const Row& r) { return r.point->accuracy_norm(); }},
    {"accuracy_finite", [](const Row& r) { return r.point->accuracy_finite(); }},
    {"difference", [](const Row& r) { return r.point->difference(); }},
    {"difference_standard_error",
     [](const Row& r) { return r.point->difference_standard_error(); }},
    {"difference_standard_error_iid",
     [](const Row& r) { return r.point->difference_standard_error_iid(); }},
    {"difference_low", [](const Row& r) { return r.point->difference_low(); }},
    {"difference_high", [](const Row& r) { return r.point->difference_high(); }},
    {"difference_p", [](const Row& r) { return r.point->difference_p(); }},
    {"difference_p_holm", [](const Row& r) { return r.point->difference_p_holm(); }},
    {"mcnemar_p", [](const Row& r) { return r.point->mcnemar_p(); }},
    {"mcnemar_p_holm", [](const Row& r) { return r.point->mcnemar_p_holm(); }},
    {"gold_log_likelihood_change",
     [](const Row& r) { return r.point->gold_log_likelihood_change(); }},
    {"gold_log_likelihood_change_standard_error",
     [](const Row& r) { return r.point->gold_log_likelihood_change_standard_error(); }},
    {"gold_log_likelihood_change_low",
     [](const Row& r) { return r.point->gold_log_likelihood_change_low(); }},
    {"gold_log_likelihood_change_high",
     [](const Row& r) { return r.point->gold_log_likelihood_change_high(); }},
    {"certificate_bound", [](const Row& r) { return r.point->certificate_bound(); }},
    {"smallest_margin", [](const Row& r) { return r.point->smallest_margin(); }},
    {"perplexity", [](const Row& r) { return r.point->perplexity(); }},
    {"auc", [](const Row& r) { return r.curve->auc(); }},
    {"auc_common", [](const Row& r) { return r.curve->auc_common(); }},
    {"auc_common_limit", [](const Row& r) { return r.curves->auc_common_limit(); }},
    {"auc_10", [](const Row& r) { return r.curve->auc_10(); }},
    {"margin_points", [](const Row& r) { return r.curves->margin_points(); }},
    {"largest_share", [](const Row& r) { return r.curve->largest_share(); }},
    {"first_crossing", [](const Row& r) { return r.curve->first_crossing(); }},
    {"certified_share", [](const Row& r) { return r.curve->certified_share(); }},
};

constexpr Column<int64_t> kIntegers[] = {
    {"rule", [](const Row& r) -> int64_t { return r.point->rule(); }},
    {"documents", [](const Row& r) -> int64_t { return r.point->documents(); }},
    {"flips_to_wrong", [](const Row& r) -> int64_t { return r.point->flips_to_wrong(); }},
    {"flips_to_right", [](const Row& r) -> int64_t { return r.point->flips_to_right(); }},
    {"non_finite_documents",
     [](const Row& r) -> int64_t { return r.point->non_finite_documents(); }},
};

constexpr Column<bool> kBooleans[] = {
    {"complete", [](const Row& r) { return r.point->complete(); }},
    {"at_least", [](const Row& r) { return r.curve->at_least(); }},
    {"in_sample", [](const Row& r) { return r.curves->in_sample(); }},
};

// The bootstrap's ends for one of a curve's numbers; NaN where there are none.
struct IntervalColumns {
  const char* metric;
  const char* low;
  const char* high;
};
constexpr IntervalColumns kIntervals[] = {
    {"auc", "auc_low", "auc_high"},
    {"auc_common", "auc_common_low", "auc_common_high"},
    {"auc_10", "auc_10_low", "auc_10_high"},
    {"largest_share", "largest_share_low", "largest_share_high"},
};

double EndOf(const v1::Curve& curve, const char* metric, bool high) {
  for (const v1::MetricEstimate& estimate : curve.estimates()) {
    if (estimate.metric() != metric) continue;
    return high ? estimate.interval().high() : estimate.interval().low();
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// The rows as one batch.
class Table {
 public:
  template <typename Builder, typename Get>
  arrow::Status Add(const char* name, const std::vector<Row>& rows, Get get) {
    Builder builder;
    for (const Row& row : rows) ARROW_RETURN_NOT_OK(builder.Append(get(row)));
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Array> column, builder.Finish());
    fields_.push_back(arrow::field(name, column->type(), /*nullable=*/false));
    columns_.push_back(std::move(column));
    return arrow::Status::OK();
  }

  std::shared_ptr<arrow::RecordBatch> Batch(size_t rows) const {
    return arrow::RecordBatch::Make(arrow::schema(fields_), static_cast<int64_t>(rows), columns_);
  }

 private:
  std::vector<std::shared_ptr<arrow::Field>> fields_;
  std::vector<std::shared_ptr<arrow::Array>> columns_;
};

arrow::Result<std::shared_ptr<arrow::RecordBatch>> MakeBatch(const std::vector<Row>& rows) {
  Table table;
  ARROW_RETURN_NOT_OK(
      table.Add<arrow::StringBuilder>("curve", rows, [](const Row& r) { return r.curve->id(); }));
  ARROW_RETURN_NOT_OK(table.Add<arrow::StringBuilder>(
      "metric", rows, [](const Row& r) { return r.curve->metric(); }));
  for (const Column<int64_t>& column : kIntegers) {
    ARROW_RETURN_NOT_OK(table.Add<arrow::Int64Builder>(column.name, rows, column.get));
  }
  for (const Column<double>& column : kDoubles) {
    ARROW_RETURN_NOT_OK(table.Add<arrow::DoubleBuilder>(column.name, rows, column.get));
  }
  for (const IntervalColumns& each : kIntervals) {
    for (const bool high : {false, true}) {
      ARROW_RETURN_NOT_OK(table.Add<arrow::DoubleBuilder>(
          high ? each.high : each.low, rows,
          [&](const Row& r) { return EndOf(*r.curve, each.metric, high); }));
    }
  }
  for (const Column<bool>& column : kBooleans) {
    ARROW_RETURN_NOT_OK(table.Add<arrow::BooleanBuilder>(column.name, rows, column.get));
  }
  return table.Batch(rows.size());
}

}  // namespace

absl::Status WriteCurvesParquet(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                const std::string& job, const std::string& path) {
  v1::GetCurvesRequest request;
  request.set_job(job);
  request.set_bootstrap_draws(results::kDefaultDraws);
  absl::StatusOr<v1::Curves> answer = results::GetCurves(jobs, artifacts, request);
  if (absl::IsInvalidArgument(answer.status())) {
    request.set_bootstrap_draws(
        0);  // too many documents and rules: the file goes without intervals
    answer = results::GetCurves(jobs, artifacts, request);
  }
  HC_ASSIGN_OR_RETURN(v1::Curves curves, std::move(answer));
  if (curves.curves().empty()) {
    v1::Curve* baseline = curves.add_curves();
    *baseline = results::BaselineCurve(curves);
  }
  std::vector<Row> rows;
  for (const v1::Curve& curve : curves.curves()) {
    for (const v1::CurvePoint& point : curve.points()) rows.push_back({&curves, &curve, &point});
  }
  auto batch = MakeBatch(rows);
  HC_RETURN_IF_ERROR(FromArrow(batch.status()));
  HC_ASSIGN_OR_RETURN(const std::unique_ptr<ParquetFile> file,
                      ParquetFile::Create(path, (*batch)->schema()));
  HC_RETURN_IF_ERROR(file->Write(**batch));
  return file->Close();
}

}  // namespace headcount::exports
