// Per-sample evidence, pulled one record at a time in (rule, sample) order, so that whoever streams
// it decides the pace; one chunk is in memory at a time. ListSamples and samples.parquet are made
// here.
//
// Not thread-safe. Errors: those of job_results.h; INVALID_ARGUMENT for a negative range;
// OUT_OF_RANGE for a rule or first sample that the job does not have; UNIMPLEMENTED for with_text.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"
#include "server/results/answers.h"
#include "server/results/job_results.h"

namespace headcount::results {

class SampleStream {
 public:
  static absl::StatusOr<std::unique_ptr<SampleStream>> Open(store::JobStore& jobs,
                                                            store::ArtifactStore& artifacts,
                                                            const v1::ListSamplesRequest& request);

  // The next stored record, or nothing at the end. Samples that are not stored yet are passed over.
  absl::StatusOr<std::optional<v1::SampleRecord>> Next();

  const JobResults& results() const { return results_; }
  const v1::Manifest& manifest() const { return *manifest_; }

 private:
  // Where a rule's rows lie: in the units of a stage from `first_unit` on, from row
  // `rule_in_unit` * samples of a chunk on.
  struct Place {
    int shown_rule = 0;
    int stage_rule = 0;
    store::Stage stage = store::Stage::kAblate;
    int64_t first_unit = 0;
    int rule_in_unit = 0;
    std::string label;
    // Where the plan lists its units: those of the rule that touch the asked samples, by sample.
    bool listed = false;
    std::vector<int64_t> units;
  };

  SampleStream(store::JobStore& jobs, store::ArtifactStore& artifacts)
      : jobs_(jobs), artifacts_(artifacts) {}

  absl::StatusOr<std::optional<Place>> PlaceOf(int shown_rule) const;
  // The units of a rule in a plan that lists them.
  std::vector<int64_t> ListedUnits(int stage_rule) const;
  // The next stored unit of the place, or nothing after its last.
  absl::StatusOr<std::optional<store::ChunkRecord>> NextUnit(const Place& place);
  absl::Status AddPlaces(const v1::ListSamplesRequest& request);
  absl::Status ReadUnit(const store::ChunkRecord& record);
  template <typename Chunk>
  absl::Status AddRecords(const Chunk& chunk, int first_row);
  absl::Status AddText(const AnswerJudges& judges, const v1::ManifestDocument& document,
                       const v1::SampleResult& row, v1::SampleRecord* record) const;

  store::JobStore& jobs_;
  store::ArtifactStore& artifacts_;
  JobResults results_;
  std::shared_ptr<const v1::Manifest> manifest_;
  std::vector<Place> places_;
  size_t place_ = 0;
  int64_t first_sample_ = 0;
  int64_t end_sample_ = 0;
  std::optional<ChunkCursor> cursor_;     // over the units of places_[place_]
  size_t listed_ = 0;                     // the next of its listed units
  std::deque<v1::SampleRecord> records_;  // of the chunk read last
};

}  // namespace headcount::results
