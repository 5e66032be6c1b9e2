// Fetches a task's samples (a slice of its manifest) from the server and keeps the latest range,
// because consecutive tasks of one stage often cover the same samples. Every sample's tokens are
// checked against its digest. Used by the compute thread alone.
//
// Errors: CANCELLED when stopped; DATA_LOSS for samples that are missing or changed; the server's
// otherwise. A server that is away is waited for.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "headcount/v1/worker_service.grpc.pb.h"
#include "worker/agent/stop_signal.h"

namespace headcount::agent {

// Consecutive samples of one manifest, with their groups' prefixes.
struct SampleRange {
  std::string manifest_digest;
  int64_t first = 0;
  std::vector<v1::ManifestSample> samples;
  std::map<int64_t, std::vector<int32_t>> prefixes;  // by group
  std::optional<v1::Generation> generation;          // where prompts are to be continued

  bool Covers(const std::string& digest, int64_t begin, int64_t count) const {
    return manifest_digest == digest && begin >= first &&
           begin + count <= first + static_cast<int64_t>(samples.size());
  }
  const v1::ManifestSample& at(int64_t sample) const { return samples.at(sample - first); }
};

class SampleSource {
 public:
  explicit SampleSource(v1::WorkerService::StubInterface* stub) : stub_(stub) {}

  absl::StatusOr<std::shared_ptr<const SampleRange>> Get(const std::string& digest, int64_t first,
                                                         int64_t count, StopSignal& stop);

 private:
  absl::StatusOr<std::shared_ptr<const SampleRange>> Fetch(const std::string& digest, int64_t first,
                                                           int64_t count);

  v1::WorkerService::StubInterface* stub_;
  std::shared_ptr<const SampleRange> latest_;
};

}  // namespace headcount::agent
