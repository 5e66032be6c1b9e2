// See job_json.h. Passing proto3 JSON through a sorted map makes the bytes depend on the content
// alone.

#include "server/export/job_json.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/catalog/numerics_version.h"
#include "common/format/frame.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "server/results/curves.h"
#include "server/results/rule_index.h"

namespace headcount::exports {
namespace {

using nlohmann::json;

absl::StatusOr<json> ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) return absl::InternalError(absl::StrCat("job.json: ", status.ToString()));
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return absl::InternalError("job.json: unreadable proto3 JSON");
  return parsed;
}

json Number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "NaN" : (x > 0 ? "Infinity" : "-Infinity");
}

absl::StatusOr<json> Rules(const v1::StagePlan& plan) {
  json rules = json::array();
  for (int r = results::BaselineRules(plan); r < plan.rules_size(); ++r) {
    HC_ASSIGN_OR_RETURN(json rule, ToJson(plan.rules(r)));
    rule["index"] = results::ShownRule(plan, r);  // as everywhere else that clients see
    rule["nominal_fraction"] = Number(plan.rules(r).nominal_fraction());
    rule["resolved_threshold"] = Number(results::ThresholdOf(plan.rules(r)));
    rules.push_back(std::move(rule));
  }
  return rules;
}

json Stage(const store::StageRecord& stage) {
  return {{"name", std::string(store::StageName(stage.stage))},
          {"units", stage.units},
          {"done_units", stage.done_units},
          {"documents", stage.plan.documents()},
          {"sample_blocks", stage.plan.sample_blocks_size()},
          {"samples_per_unit", stage.plan.samples_per_unit()},
          {"rules_per_unit", stage.plan.rules_per_unit()},
          {"manifest_digest", stage.manifest_digest}};
}

}  // namespace

absl::Status WriteJobJson(const results::JobResults& results, const std::string& path) {
  v1::Job job = results.job;
  job.clear_progress();  // an estimate of the moment
  json document;
  HC_ASSIGN_OR_RETURN(document["job"], ToJson(job));
  document["complete"] = results.complete();
  document["stages"] = json::array();
  for (const auto* stage : {&results.score, &results.ablate}) {
    if (stage->has_value()) document["stages"].push_back(Stage(**stage));
  }
  document["rules"] = json::array();
  if (results.ablate.has_value()) {
    HC_ASSIGN_OR_RETURN(document["rules"], Rules(results.ablate->plan));
  }
  document["versions"] = {{"numerics", catalog::kNumericsVersion},
                          {"storage_format", format::kFormatVersion}};
  return WriteFileDurably(path, document.dump(2) + "\n");
}

}  // namespace headcount::exports
