// See rule_masks.h.

#include "server/results/rule_masks.h"

#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "server/results/records.h"
#include "server/results/rule_index.h"

namespace headcount::results {
namespace {

absl::Status Broken(const std::string& job, const store::ChunkRecord& record,
                    std::string_view what) {
  return absl::DataLossError(absl::StrCat(job, ", ", std::string(store::StageName(record.stage)),
                                          " unit ", record.unit, " ", std::string(what)));
}

// Mean over documents of the mean over their samples. A document's samples are neighbours.
double Share(const v1::Manifest& manifest, const RuleMasks& masks) {
  const int64_t heads = int64_t{masks.layers} * masks.heads;
  double sum = 0;
  int documents = 0;
  for (int first = 0; first < manifest.samples_size();) {
    int end = first;
    double of_document = 0;
    while (end < manifest.samples_size() &&
           manifest.samples(end).document() == manifest.samples(first).document()) {
      of_document += ShareZeroed(masks.masks[static_cast<size_t>(end)], heads);
      ++end;
    }
    sum += of_document / (end - first);
    ++documents;
    first = end;
  }
  return documents > 0 ? sum / documents : 0;
}

// Adds little-endian float32 to `sums`.
void AddFloats(const std::string& bytes, std::vector<double>& sums) {
  sums.resize(bytes.size() / sizeof(float));
  for (size_t i = 0; i < sums.size(); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(float));
    sums[i] += value;
  }
}

std::string Means(std::span<const double> sums, int64_t count) {
  std::string bytes(sums.size() * sizeof(float), '\0');
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto mean = static_cast<float>(count > 0 ? sums[i] / static_cast<double>(count) : 0.0);
    std::memcpy(bytes.data() + i * sizeof(float), &mean, sizeof(float));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<RuleMasks> ReadRuleMasks(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                        const std::string& job, int rule) {
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, job));
  if (!results.ablate.has_value() || !results.complete()) {
    return ResultsNotReady(job, "complete set of masks");
  }
  const v1::StagePlan& plan = results.ablate->plan;
  const int stage_rule = StageRule(plan, rule);
  if (rule < 0 || stage_rule >= plan.rules_size()) {
    return InvalidField(
        "rule", absl::StrCat(rule),
        absl::StrCat(job, " has rules 0 to ", ShownRule(plan, plan.rules_size() - 1)));
  }
  HC_ASSIGN_OR_RETURN(const auto manifest, ReadManifest(artifacts, results.manifest_digest));
  RuleMasks out;
  out.manifest_digest = results.manifest_digest;
  out.label = plan.rules(stage_rule).label();
  out.nominal_fraction = plan.rules(stage_rule).nominal_fraction();
  out.masks.resize(static_cast<size_t>(manifest->samples_size()));
  const int64_t blocks = plan.sample_blocks_size();
  const bool listed = !plan.units().empty();
  const int64_t first_unit = listed ? 0 : stage_rule / plan.rules_per_unit() * blocks;
  ChunkCursor cursor(jobs, job, store::Stage::kAblate, first_unit,
                     listed ? plan.units_size() : first_unit + blocks);
  int64_t samples = 0;
  while (true) {
    HC_ASSIGN_OR_RETURN(const std::optional<store::ChunkRecord> record, cursor.Next());
    if (!record) break;
    if (listed && !HoldsRules(plan.units(static_cast<int>(record->unit)), stage_rule)) continue;
    v1::AblateChunk chunk;
    HC_RETURN_IF_ERROR(ReadChunk(artifacts, job, *record, format::FrameKind::kAblateChunk, &chunk));
    if (out.layers == 0) {
      out.layers = chunk.layers();
      out.heads = chunk.heads();
      out.changed.resize(static_cast<size_t>(out.layers) * static_cast<size_t>(out.heads));
    }
    const int row = stage_rule - chunk.first_rule();
    if (chunk.layers() != out.layers || chunk.heads() != out.heads || row < 0 ||
        row >= chunk.rules() || chunk.results_size() != chunk.rules() * chunk.samples() ||
        chunk.first_sample() < 0 ||
        chunk.first_sample() + chunk.samples() > manifest->samples_size()) {
      return Broken(job, *record, "has not the shape that its plan gives it");
    }
    for (int i = 0; i < chunk.samples(); ++i, ++samples) {
      const std::string& mask = chunk.results(row * chunk.samples() + i).mask();
      if (mask.size() != (out.changed.size() + 7) / 8) {
        return Broken(job, *record, "has a mask of another size");
      }
      for (size_t bit = 0; bit < out.changed.size(); ++bit) {
        out.changed[bit] += static_cast<unsigned char>(mask[bit / 8]) >> (bit % 8) & 1;
      }
      out.masks[static_cast<size_t>(chunk.first_sample() + i)] = mask;
    }
  }
  if (samples != manifest->samples_size()) return ResultsNotReady(job, "complete set of masks");
  out.share = Share(*manifest, out);
  return out;
}

absl::StatusOr<v1::HeadMeans> ReadHeadMeans(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                            const std::string& job) {
  HC_ASSIGN_OR_RETURN(const JobResults results, OpenResults(jobs, job));
  HC_ASSIGN_OR_RETURN(const store::StageRecord stage, ScoreStage(results));
  if (stage.done_units < stage.units) return ResultsNotReady(job, "complete set of head outputs");
  std::vector<double> rest, first;
  int64_t rest_count = 0, first_count = 0;
  ChunkCursor cursor(jobs, job, store::Stage::kScore, 0, stage.units);
  while (true) {
    HC_ASSIGN_OR_RETURN(const std::optional<store::ChunkRecord> record, cursor.Next());
    if (!record) break;
    v1::ScoreChunk chunk;
    HC_RETURN_IF_ERROR(ReadChunk(artifacts, job, *record, format::FrameKind::kScoreChunk, &chunk));
    if (!chunk.has_head_sums()) {
      return WithReason(absl::FailedPreconditionError(absl::StrCat(
                            job, ", score unit ", record->unit, " holds no sums of head outputs")),
                        "NO_HEAD_SUMS");
    }
    const v1::HeadSumSlab& sums = chunk.head_sums();
    // A unit of which no sample was finite has no sums.
    if (sums.first_count() == 0) continue;
    if (sums.rest().size() != sums.first().size() ||
        (!rest.empty() && sums.rest().size() != rest.size() * sizeof(float))) {
      return Broken(job, *record, "has sums of another size");
    }
    AddFloats(sums.rest(), rest);
    AddFloats(sums.first(), first);
    rest_count += sums.rest_count();
    first_count += sums.first_count();
  }
  if (first_count == 0) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(job, ": none of its samples is finite")),
        "NON_FINITE");
  }
  v1::HeadMeans means;
  means.set_job(job);
  means.set_rest(Means(rest, rest_count));
  means.set_first(Means(first, first_count));
  return means;
}

}  // namespace headcount::results
