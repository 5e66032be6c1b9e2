// The server without gRPC and threads, for tests: an in-memory store, a fake clock, and the job
// flow, dispatcher and report sink wired to each other as headcountd does.

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/plan/job_flow.h"
#include "server/queue/dispatcher.h"
#include "server/queue/manifest_cache.h"
#include "server/queue/report_sink.h"
#include "server/results/thresholds.h"
#include "server/store/sqlite_job_store.h"
#include "spdlog/spdlog.h"
#include "tests/server/plan/fake_catalog.h"

namespace headcount::queue {

// "job" -> "projects/default/jobs/job"
inline std::string JobName(const std::string& id) { return "projects/default/jobs/" + id; }

inline v1::Job ParseJob(const std::string& text) {
  v1::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text;
  return job;
}

class TestServer {
 public:
  TestServer() {
    spdlog::set_level(spdlog::level::off);  // lost tasks are what these tests are about
    auto opened = store::SqliteJobStore::Open(":memory:", clock);
    EXPECT_TRUE(opened.ok()) << opened.status();
    jobs = *std::move(opened);
    artifacts = store::ArtifactStore::InMemory();
    Restart();
  }

  // What a restarted server has forgotten; the store stays.
  void Restart() {
    plan::ResultSources results;
    results.thresholds = [this](const std::string& job,
                                std::span<const catalog::Score* const> scores,
                                std::span<const double> fractions, const results::ScorePool& pool) {
      return results::ThresholdsAtFractions(*jobs, *artifacts, job, scores, fractions, pool);
    };
    flow = std::make_unique<plan::JobFlow>(
        *jobs, *artifacts, catalog, std::move(results),
        plan::JobFlowOptions{.samples_per_unit = 4, .rules_per_unit = 2, .server_version = "test"});
    dispatcher = std::make_unique<Dispatcher>(*jobs, clock, options);
    manifests = std::make_unique<ManifestCache>(*artifacts);
    reuse = std::make_unique<ResultReuse>(*jobs, *artifacts, catalog);
    sink = std::make_unique<ReportSink>(
        *jobs, *artifacts, catalog, *manifests, *reuse,
        [this](const std::string& job, store::Stage stage, int64_t unit) {
          EXPECT_TRUE(flow->UnitStored(job, stage, unit).ok());
        });
    flow->SetReuse(
        [this](const v1::Job& job, const store::StageRecord& stage, const v1::Manifest& manifest) {
          return reuse->Find(job, stage, manifest);
        });
    flow->SetListener([this](const std::string&) { dispatcher->NotifyChanged(); });
    dispatcher->SetListener([this] { ++changes; });
    dispatcher->SetAdvance([this](const std::string& job) {
      const absl::Status advanced = flow->Advance(job);
      EXPECT_TRUE(advanced.ok()) << advanced;
    });
    EXPECT_TRUE(flow->ResumeAll().ok());
  }

  // `spec` in text format; owner and priority may be in it.
  std::string Create(const std::string& id, const std::string& spec) {
    store::NewJob job{.job = ParseJob(spec)};
    job.job.set_name(JobName(id));
    job.job.set_uid(id);
    if (job.job.owner().empty()) job.job.set_owner("ann");
    const auto created = jobs->CreateJob(job, 1000);
    EXPECT_TRUE(created.ok()) << created.status();
    EXPECT_TRUE(flow->Advance(JobName(id)).ok());
    return JobName(id);
  }

  v1::Job Get(const std::string& name) {
    const auto job = jobs->GetJob(name);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(v1::Job());
  }

  void SetState(const std::string& name, std::vector<v1::Job::State> from, v1::Job::State to) {
    const auto updated =
        jobs->UpdateState({.job = name, .from = std::move(from), .to = to, .reason = "TEST"});
    EXPECT_TRUE(updated.ok()) << updated.status();
    EXPECT_TRUE(flow->Advance(name).ok());
    dispatcher->NotifyChanged();
  }

  std::vector<v1::JobEvent> Events(const std::string& name) {
    const auto events = jobs->ReadEvents(name, 0, 100'000);
    EXPECT_TRUE(events.ok()) << events.status();
    return events.value_or(std::vector<v1::JobEvent>());
  }

  FakeClock clock;
  plan::FakeCatalog catalog;
  DispatcherOptions options;
  std::unique_ptr<store::JobStore> jobs;
  std::unique_ptr<store::ArtifactStore> artifacts;
  std::unique_ptr<plan::JobFlow> flow;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<ManifestCache> manifests;
  std::unique_ptr<ResultReuse> reuse;
  std::unique_ptr<ReportSink> sink;
  std::atomic<int> changes = 0;
};

}  // namespace headcount::queue
