// What every JobStore must do, as one parameterised suite: the conformance_*.cc files hold the
// tests, conformance_test.cc names the backends they run on. A new backend is one entry there.

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/errors.h"
#include "server/store/job_store.h"
#include "tests/common/base/temp_folder.h"

namespace headcount::store {

struct Backend {
  std::string name;
  bool durable = false;  // opening it again in the same folder finds what was there
  std::function<std::unique_ptr<JobStore>(const std::string& folder, Clock& clock)> open;
};

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

inline constexpr Clock::Duration kTerm = std::chrono::seconds(30);

class JobStoreConformance : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override { Open(); }

  void Open();
  // As a server that starts again; only for durable backends.
  void Reopen();

  // A sweep job on model "m", QUEUED.
  v1::Job Create(const std::string& id, const std::string& owner = "ann");
  static NewJob Request(const std::string& id, const std::string& owner = "ann");
  // A job with a stage of that many units, two rows each.
  std::string CreateWithUnits(const std::string& id, int64_t units, Stage stage = Stage::kScore);
  absl::Status Plan(const std::string& job, Stage stage, int64_t units,
                    const std::string& manifest = "manifest");
  absl::StatusOr<Lease> Take(const std::string& job, int64_t first, int64_t count,
                             const std::string& worker = "w1", Stage stage = Stage::kScore);
  absl::StatusOr<StoredChunk> Store(const Lease& lease, int64_t unit,
                                    const std::string& digest = "");
  absl::StatusOr<EndedLease> End(const Lease& lease, LeaseEnd end);
  absl::StatusOr<v1::Job> Move(const std::string& job, std::vector<v1::Job::State> from,
                               v1::Job::State to);
  v1::Job Get(const std::string& job);

  std::vector<v1::JobEvent> Events(const std::string& job);
  // What the view says is free of a stage: {{first, count}, ...}; empty when it is not in the view.
  std::vector<std::pair<int64_t, int64_t>> FreeUnits(const std::string& job,
                                                     Stage stage = Stage::kScore);
  // Sequences are dense from 1, counts match, and each unit is exactly one of free, leased, stored.
  void CheckConsistent(const std::string& job);

  TempFolder folder_;
  FakeClock clock_;
  std::unique_ptr<JobStore> store_;
};

// What only backends that keep their data can be asked.
class DurableJobStoreConformance : public JobStoreConformance {};

// "<code> <reason>", for one-line expectations.
std::string Refusal(const absl::Status& status);

}  // namespace headcount::store
