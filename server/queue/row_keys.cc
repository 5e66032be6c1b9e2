// See row_keys.h.

#include "server/queue/row_keys.h"

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/catalog/measurements.h"
#include "common/catalog/numerics_version.h"
#include "common/format/job_kind.h"
#include "common/format/serialize.h"

namespace headcount::queue {
namespace {

// The job's settings without what the rows' own keys say (samples, rules). A setting that is new to
// the contract is in the key from its first day.
std::string Settings(const v1::Job& job) {
  switch (job.spec_case()) {
    case v1::Job::kScore: {
      v1::ScoreSpec spec = job.score();
      spec.clear_workload();
      return format::SerializeDeterministically(spec);
    }
    case v1::Job::kAblate: {
      v1::AblateSpec spec = job.ablate();
      spec.clear_workload();
      spec.clear_rules();
      return format::SerializeDeterministically(spec);
    }
    case v1::Job::kSweep: {
      v1::SweepSpec spec = job.sweep();
      spec.clear_workload();
      spec.clear_scores();
      spec.clear_fractions();
      spec.clear_random_seed();
      spec.clear_layers();
      spec.clear_controls();
      spec.clear_control_seed();
      spec.clear_calibrate_on();
      return format::SerializeDeterministically(spec);
    }
    case v1::Job::kFrontier: {
      v1::FrontierSpec spec = job.frontier();
      for (int field = 1; field <= v1::FrontierSpec::kLayersFieldNumber; ++field) {
        spec.GetReflection()->ClearField(&spec, spec.GetDescriptor()->FindFieldByNumber(field));
      }
      return format::SerializeDeterministically(spec);
    }
    case v1::Job::kKnockout: {
      v1::KnockoutSpec spec = job.knockout();
      spec.clear_workload();
      spec.clear_layers();
      spec.clear_score_job();
      return format::SerializeDeterministically(spec);
    }
    default:
      return job.uid();
  }
}

std::string Project(const std::string& job) { return job.substr(0, job.find("/jobs/")); }

}  // namespace

std::string StageKey(const v1::Job& job, store::Stage stage, const std::string& task_digest) {
  const v1::Workload& workload = format::WorkloadOf(job);
  v1::TaskSource source = workload.task();
  source.clear_limit();
  source.clear_subtasks();
  std::string key =
      absl::StrCat("rows 1\n", Project(job.name()), "\nmodel ", job.provenance().model_digest(),
                   " ", workload.dtype(), "\nnumerics ", catalog::kNumericsVersion, "\nstage ",
                   std::string(store::StageName(stage)), "\ntask ", task_digest, "\n");
  absl::StrAppend(&key, Sha256Hex(format::SerializeDeterministically(source)), " ",
                  Sha256Hex(Settings(job)), "\n");
  if (stage == store::Stage::kScore) {
    for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
      absl::StrAppend(&key, std::string(info.id), " ");
    }
  }
  return Sha256Hex(key);
}

std::string SamplesKey(const v1::Manifest& manifest, const v1::UnitRange& range) {
  std::string key;
  int64_t group = -1;
  for (int64_t i = range.first_sample(); i < range.first_sample() + range.samples(); ++i) {
    v1::ManifestSample sample = manifest.samples(static_cast<int>(i));
    v1::ManifestDocument document = manifest.documents(static_cast<int>(sample.document()));
    if (sample.group() != group) {
      group = sample.group();
      v1::ManifestGroup prefix = manifest.groups(static_cast<int>(group));
      prefix.clear_group();
      absl::StrAppend(&key, "group ", Sha256Hex(format::SerializeDeterministically(prefix)));
    }
    // Their places in this manifest.
    sample.clear_document();
    sample.clear_group();
    absl::StrAppend(&key, "sample ", Sha256Hex(format::SerializeDeterministically(sample)), " ",
                    Sha256Hex(format::SerializeDeterministically(document)));
  }
  return Sha256Hex(key);
}

std::optional<std::string> RuleKey(const v1::ResolvedRule& rule) {
  switch (rule.select_case()) {
    case v1::ResolvedRule::kThreshold:
    case v1::ResolvedRule::kTopK:
    case v1::ResolvedRule::kFixedHeads:
    case v1::ResolvedRule::kRandom:
    case v1::ResolvedRule::kNone:
      break;
    default:
      return std::nullopt;
  }
  if (rule.intervention().has_mean()) return std::nullopt;  // the means are the plan's
  v1::ResolvedRule alone = rule;
  alone.clear_index();
  alone.clear_label();
  alone.clear_nominal_fraction();
  return format::SerializeDeterministically(alone);
}

std::vector<std::string> RowKeys(const std::string& stage_key, const std::string& samples_key,
                                 const v1::StagePlan& plan, const v1::UnitRange& range) {
  const std::string common = absl::StrCat(stage_key, samples_key);
  if (plan.has_record()) return {};  // what is recorded is nobody else's
  if (range.rules() == 0) return {Sha256Hex(common)};
  std::vector<std::string> keys;
  for (int i = 0; i < range.rules(); ++i) {
    const std::optional<std::string> rule = RuleKey(plan.rules(range.first_rule() + i));
    if (!rule.has_value()) return {};
    keys.push_back(Sha256Hex(absl::StrCat(common, *rule)));
  }
  return keys;
}

}  // namespace headcount::queue
