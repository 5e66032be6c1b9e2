// Two made-up jobs in one store, for the tests of what reads both. See fake_job.h.

#pragma once

#include <string>
#include <vector>

#include "tests/server/results/sample_job.h"

namespace headcount::results {

class TwoJobs : public FakeJob {
 public:
  static constexpr const char* kSecond = "projects/default/jobs/second";

  // Both must outlive the store.
  TwoJobs(SampleJob& first, SampleJob& second) : first_(first), second_(second) {
    for (SampleJob* job : {&first_, &second_}) {
      const auto stages = job->store.ListStages(kName);
      for (const store::StageRecord& stage : *stages) {
        Copy(job->store, stage.manifest_digest);
        const auto chunks = job->store.ListChunks(kName, stage.stage, 0, 1000);
        for (const store::ChunkRecord& chunk : *chunks) {
          Copy(job->store, chunk.digest);
        }
      }
    }
  }

  absl::StatusOr<v1::Job> GetJob(const std::string& name) override {
    absl::StatusOr<v1::Job> job = Of(name).GetJob(kName);
    if (job.ok()) job->set_name(name);
    return job;
  }
  absl::StatusOr<std::vector<store::StageRecord>> ListStages(const std::string& name) override {
    return Of(name).ListStages(kName);
  }
  absl::StatusOr<std::vector<store::ChunkRecord>> ListChunks(const std::string& name,
                                                             store::Stage stage, int64_t first_unit,
                                                             int limit) override {
    return Of(name).ListChunks(kName, stage, first_unit, limit);
  }

 private:
  FakeJob& Of(const std::string& name) { return name == kSecond ? second_.store : first_.store; }
  void Copy(FakeJob& from, const std::string& digest) {
    artifacts().Put(from.artifacts().Get(digest).value()).value();
  }

  SampleJob& first_;
  SampleJob& second_;
};

}  // namespace headcount::results
