// See result_reuse.h.

#include "server/queue/result_reuse.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/format/frame.h"
#include "common/format/job_kind.h"
#include "server/plan/cutter.h"
#include "server/queue/chunk_check.h"
#include "server/queue/row_keys.h"
#include "spdlog/spdlog.h"

namespace headcount::queue {
namespace {

using format::FrameKind;
using store::StoredRows;

// The rows of each unit, as the store knows them: [unit][row][kind of device].
using FoundUnits = std::vector<std::vector<std::vector<StoredRows>>>;

absl::StatusOr<std::string> StageKeyOf(const v1::Job& job, store::Stage stage,
                                       const plan::JobCatalog& catalog) {
  const v1::Workload& workload = format::WorkloadOf(job);
  if (!workload.has_task()) return StageKey(job, stage, "");
  HC_ASSIGN_OR_RETURN(const plan::TaskFacts task,
                      catalog.FindTask(workload.task().task(), workload.task().split()));
  return StageKey(job, stage, task.definition->digest);
}

const StoredRows* OfKind(const std::vector<StoredRows>& kinds, const std::string& device_kind) {
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const StoredRows& rows) {
    return rows.device_kind == device_kind;
  });
  return found == kinds.end() ? nullptr : &*found;
}

// The kind of device that computed the most rows; empty where nothing is known.
std::string CommonestKind(const FoundUnits& units) {
  std::map<std::string, int64_t> counts;
  for (const auto& rows : units) {
    for (const auto& kinds : rows) {
      for (const StoredRows& one : kinds) ++counts[one.device_kind];
    }
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? std::string() : most->first;
}

// Chunks as they are asked for, one after the other: neighbouring units share theirs.
template <class Chunk>
class ChunkReader {
 public:
  ChunkReader(store::ArtifactStore& artifacts, FrameKind kind)
      : artifacts_(artifacts), kind_(kind) {}

  absl::StatusOr<const Chunk*> Get(const std::string& digest) {
    if (const auto known = chunks_.find(digest); known != chunks_.end()) return &known->second;
    HC_ASSIGN_OR_RETURN(const std::string bytes, artifacts_.Get(digest));
    Chunk chunk;
    HC_RETURN_IF_ERROR(format::Unframe(kind_, bytes, &chunk));
    if (chunks_.size() >= kKept) chunks_.clear();
    return &(chunks_[digest] = std::move(chunk));
  }

 private:
  static constexpr size_t kKept = 16;
  store::ArtifactStore& artifacts_;
  const FrameKind kind_;
  std::map<std::string, Chunk> chunks_;
};

// One rule's rows of `from`, added to `to`. False when the chunk has no such row.
bool AddRule(const v1::AblateChunk& from, int row, v1::AblateChunk* to) {
  const size_t zeroed = size_t{4} * from.layers() * from.heads();
  if (row >= from.rules() || from.results_size() != from.rules() * from.samples() ||
      from.zeroed().size() != zeroed * from.rules()) {
    return false;
  }
  for (int i = 0; i < from.samples(); ++i) {
    *to->add_results() = from.results(row * from.samples() + i);
  }
  to->mutable_zeroed()->append(from.zeroed(), row * zeroed, zeroed);
  return true;
}

// The chunk of a unit made of `rows`, of which there is one a rule. A unit that another job had
// just so comes out with the same bytes.
absl::StatusOr<std::string> JoinRules(const v1::UnitRange& range,
                                      const std::vector<const StoredRows*>& rows,
                                      ChunkReader<v1::AblateChunk>& reader) {
  v1::AblateChunk unit;
  for (const StoredRows* one : rows) {
    HC_ASSIGN_OR_RETURN(const v1::AblateChunk* chunk, reader.Get(one->digest));
    if (unit.results().empty()) {
      unit.set_first_sample(range.first_sample());
      unit.set_samples(range.samples());
      unit.set_first_rule(range.first_rule());
      unit.set_rules(range.rules());
      unit.set_layers(chunk->layers());
      unit.set_heads(chunk->heads());
      *unit.mutable_run() = chunk->run();
    }
    if (!AddRule(*chunk, one->row, &unit)) return absl::DataLossError("a chunk lacks its rows");
  }
  return format::Frame(FrameKind::kAblateChunk, unit);
}

absl::StatusOr<std::string> MoveSamples(const v1::UnitRange& range, const StoredRows& rows,
                                        ChunkReader<v1::ScoreChunk>& reader) {
  HC_ASSIGN_OR_RETURN(const v1::ScoreChunk* chunk, reader.Get(rows.digest));
  v1::ScoreChunk moved = *chunk;
  moved.set_first_sample(range.first_sample());
  return format::Frame(FrameKind::kScoreChunk, moved);
}

}  // namespace

ResultReuse::ResultReuse(store::JobStore& jobs, store::ArtifactStore& artifacts,
                         const plan::JobCatalog& catalog)
    : jobs_(jobs), artifacts_(artifacts), catalog_(catalog) {}

absl::Status ResultReuse::Keep(const v1::Job& job, const store::StageRecord& stage,
                               const v1::UnitRange& range, const v1::Manifest& manifest,
                               const std::string& digest, const v1::RunInfo& run) {
  HC_ASSIGN_OR_RETURN(const std::string key, StageKeyOf(job, stage.stage, catalog_));
  const std::vector<std::string> keys =
      RowKeys(key, SamplesKey(manifest, range), stage.plan, range);
  if (keys.empty()) return absl::OkStatus();
  return jobs_.PutRowKeys(digest, run.device_kind(), keys);
}

absl::StatusOr<plan::Reused> ResultReuse::Find(const v1::Job& job, const store::StageRecord& stage,
                                               const v1::Manifest& manifest) {
  const absl::StatusOr<plan::ModelFacts> model =
      catalog_.FindModel(format::WorkloadOf(job).model());
  HC_RETURN_IF_ERROR(model.status());
  HC_ASSIGN_OR_RETURN(const std::string key, StageKeyOf(job, stage.stage, catalog_));

  std::vector<v1::UnitRange> ranges;
  std::map<std::pair<int64_t, int>, std::string> samples;  // first and number -> key of a block
  FoundUnits found;
  for (int64_t unit = 0; unit < stage.units; ++unit) {
    HC_ASSIGN_OR_RETURN(ranges.emplace_back(), plan::RangeOfUnit(stage.plan, unit));
    const v1::UnitRange& range = ranges.back();
    std::string& block = samples[{range.first_sample(), range.samples()}];
    if (block.empty()) block = SamplesKey(manifest, range);
    HC_ASSIGN_OR_RETURN(found.emplace_back(),
                        jobs_.FindRows(RowKeys(key, block, stage.plan, range)));
  }

  std::string kind = job.provenance().device_kind();
  if (kind.empty()) kind = CommonestKind(found);
  ChunkReader<v1::ScoreChunk> scores(artifacts_, FrameKind::kScoreChunk);
  ChunkReader<v1::AblateChunk> ablations(artifacts_, FrameKind::kAblateChunk);
  const bool scoring = stage.stage == store::Stage::kScore;
  plan::Reused reused;
  for (int64_t unit = 0; unit < stage.units; ++unit) {
    std::vector<const StoredRows*> rows;
    for (const std::vector<StoredRows>& kinds : found[unit]) rows.push_back(OfKind(kinds, kind));
    if (rows.empty() || std::find(rows.begin(), rows.end(), nullptr) != rows.end()) continue;
    const v1::UnitRange& range = ranges[unit];
    std::string bytes;
    const auto join = [&]() -> absl::StatusOr<CheckedChunk> {
      if (scoring) {
        HC_ASSIGN_OR_RETURN(bytes, MoveSamples(range, *rows.front(), scores));
        return CheckScoreChunk(bytes, range, model->config, manifest);
      }
      HC_ASSIGN_OR_RETURN(bytes, JoinRules(range, rows, ablations));
      return CheckAblateChunk(bytes, range, stage.plan, model->config, manifest);
    };
    absl::StatusOr<CheckedChunk> checked = join();
    if (!checked.ok()) {
      spdlog::warn("unit {} of {} is computed again, what {} has cannot be used: {}", unit,
                   job.name(), rows.front()->job, checked.status().ToString());
      continue;
    }
    HC_ASSIGN_OR_RETURN(const std::string digest, artifacts_.Put(bytes));
    if (reused.units.empty()) reused.run = checked->run;
    reused.units.push_back({.unit = unit,
                            .digest = digest,
                            .bytes = static_cast<int64_t>(bytes.size()),
                            .counts = std::move(checked->counts),
                            .source = rows.front()->job});
  }
  return reused;
}

}  // namespace headcount::queue
