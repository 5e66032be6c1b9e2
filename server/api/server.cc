// See server.h.

#include "server/api/server.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "common/base/status_macros.h"
#include "common/parquet/parquet_rows.h"
#include "common/rpc/channel.h"
#include "server/api/admin_service.h"
#include "server/api/artifact_service.h"
#include "server/api/catalog_service.h"
#include "server/api/held_calls.h"
#include "server/api/job_service.h"
#include "server/api/listeners.h"
#include "server/api/result_service.h"
#include "server/api/service_context.h"
#include "server/api/version.h"
#include "server/api/worker_service.h"
#include "server/results/frontier.h"
#include "server/results/rule_masks.h"
#include "server/results/thresholds.h"

namespace headcount::server {
namespace {

constexpr int kQuickThreads = 8;
constexpr int kSlowThreads = 4;
constexpr int kStreamThreads = 2;
constexpr size_t kLongestQueue = 4'096;
constexpr auto kTick = std::chrono::seconds(1);
constexpr int kTicksPerCollection = 600;

queue::DispatcherOptions DispatcherOptionsOf(const Config& config) {
  queue::DispatcherOptions options;
  options.lease = config.lease;
  options.policy.task_target = config.task_target;
  return options;
}

plan::NextUnitsFn NextUnitsFrom(store::JobStore& jobs, store::ArtifactStore& artifacts) {
  return [&jobs, &artifacts](const v1::Job& job, const v1::StagePlan& plan) {
    return results::NextFrontierUnits(jobs, artifacts, job, plan);
  };
}

plan::ResultSources ResultsFrom(store::JobStore& jobs, store::ArtifactStore& artifacts) {
  return {
      .thresholds =
          [&jobs, &artifacts](const std::string& job, std::span<const catalog::Score* const> scores,
                              std::span<const double> fractions, const results::ScorePool& pool) {
            return results::ThresholdsAtFractions(jobs, artifacts, job, scores, fractions, pool);
          },
      .masks = [&jobs, &artifacts](
                   const std::string& job,
                   int rule) { return results::ReadRuleMasks(jobs, artifacts, job, rule); },
      .means = [&jobs, &artifacts](
                   const std::string& job) { return results::ReadHeadMeans(jobs, artifacts, job); },
  };
}

}  // namespace

// Members are built in order and destroyed in reverse: what comes later uses what comes before.
struct HeadcountServer::State {
  State(Config given, ServerParts given_parts)
      : config(std::move(given)),
        parts(std::move(given_parts)),
        catalog(config, parts.shipped_tasks, parquet_rows::Count),
        job_flow(
            *parts.jobs, *parts.artifacts, catalog, ResultsFrom(*parts.jobs, *parts.artifacts),
            {config.samples_per_unit, config.rules_per_unit, config.prompts_per_unit, kVersion}),
        dispatcher(*parts.jobs, *parts.clock, DispatcherOptionsOf(config)),
        manifests(*parts.artifacts),
        feed(*parts.jobs),
        metrics(*parts.jobs, dispatcher, feed, kVersion),
        flow(job_flow),
        reuse(*parts.jobs, *parts.artifacts, catalog),
        reports(*parts.jobs, *parts.artifacts, catalog, manifests, reuse,
                [this](const std::string& job, store::Stage stage, int64_t unit) {
                  flow.PostUnit(job, stage, unit);
                }),
        quick(kQuickThreads, kLongestQueue),
        slow(kSlowThreads, kLongestQueue),
        stream(kStreamThreads, kLongestQueue),
        held(dispatcher, quick, metrics, *parts.clock) {}

  const Config config;
  ServerParts parts;
  ServerCatalog catalog;
  plan::JobFlow job_flow;
  queue::Dispatcher dispatcher;
  queue::ManifestCache manifests;
  EventFeed feed;
  Metrics metrics;
  plan::FlowRunner flow;
  queue::ResultReuse reuse;
  queue::ReportSink reports;
  std::atomic<bool> stopping = false;
  WorkPool quick;
  WorkPool slow;
  WorkPool stream;
  HeldCalls held;
  ServiceContext context{config,
                         *parts.clock,
                         *parts.ids,
                         *parts.authoriser,
                         *parts.jobs,
                         *parts.artifacts,
                         catalog,
                         flow,
                         dispatcher,
                         manifests,
                         reports,
                         feed,
                         metrics,
                         quick,
                         slow,
                         stream,
                         [this] { return stopping.load(); }};
  JobServiceImpl job_service{context};
  ResultServiceImpl result_service{context};
  CatalogServiceImpl catalog_service{context};
  ArtifactServiceImpl artifact_service{context};
  WorkerServiceImpl worker_service{context, held};
  AdminServiceImpl admin_service{context};
  Listener clients;
  Listener workers;
  Endpoints endpoints;

  std::mutex tick_mutex;
  std::condition_variable tick_changed;
  std::thread ticker;

  void Connect();
  absl::Status Resume();
  absl::Status Open();
  void Tick();
  void Collect();
};

// Who tells whom. All listeners are called outside the locks of those who call them.
void HeadcountServer::State::Connect() {
  parts.jobs->SetListener([this](const std::string& job) {
    feed.JobChanged(job);
    metrics.JobChanged(job);
  });
  job_flow.SetReuse(
      [this](const v1::Job& job, const store::StageRecord& stage, const v1::Manifest& manifest) {
        return reuse.Find(job, stage, manifest);
      });
  job_flow.SetPost([this](const std::string& job) { flow.Post(job); });
  job_flow.SetNextUnits(NextUnitsFrom(*parts.jobs, *parts.artifacts));
  job_flow.SetListener([this](const std::string&) { dispatcher.NotifyChanged(); });
  dispatcher.SetListener([this] { held.Changed(); });
  dispatcher.SetAdvance([this](const std::string& job) { flow.Post(job); });
}

// What was going on when the last server stopped goes on.
absl::Status HeadcountServer::State::Resume() {
  HC_ASSIGN_OR_RETURN(const std::vector<std::string> open, parts.jobs->OpenJobs());
  for (const std::string& name : open) {
    HC_ASSIGN_OR_RETURN(const v1::Job job, parts.jobs->GetJob(name));
    metrics.JobOpened(job, /*submitted=*/false);
    flow.Post(name);
  }
  if (!open.empty()) spdlog::info("{} jobs go on", open.size());
  return absl::OkStatus();
}

absl::Status HeadcountServer::State::Open() {
  const auto reflection = [this](const std::string& listen) {
    return config.reflection && (config.reflection_everywhere || rpc::IsLoopback(listen));
  };
  // Workers first: a client that finds the server finds a working one.
  HC_ASSIGN_OR_RETURN(
      workers,
      Listen({.key = "worker_listen",
              .listen = config.worker_listen,
              .reflection = reflection(config.worker_listen),
              .services = {&worker_service, &admin_service},
              .health_names = {"headcount.v1.WorkerService", "headcount.v1.AdminService"}}));
  endpoints.worker_listen = workers.address;
  HC_ASSIGN_OR_RETURN(
      clients,
      Listen({.key = "listen",
              .listen = config.listen,
              .reflection = reflection(config.listen),
              .services = {&job_service, &result_service, &catalog_service, &artifact_service},
              .health_names = {"headcount.v1.JobService", "headcount.v1.ResultService",
                               "headcount.v1.CatalogService", "headcount.v1.ArtifactService"}}));
  endpoints.listen = clients.address;
  if (!config.metrics_listen.empty()) {
    HC_ASSIGN_OR_RETURN(endpoints.metrics_listen, metrics.Expose(config.metrics_listen));
  }
  return absl::OkStatus();
}

void HeadcountServer::State::Collect() {
  const auto live = parts.jobs->LiveDigests();
  if (!live.ok()) return;
  const auto freed = parts.artifacts->Collect({live->begin(), live->end()});
  if (!freed.ok()) {
    spdlog::warn("collecting chunks that no job refers to: {}", freed.status().ToString());
  } else if (*freed > 0) {
    spdlog::info("freed {} bytes of chunks that no job refers to", *freed);
  }
}

void HeadcountServer::State::Tick() {
  int ticks = 0;
  std::unique_lock lock(tick_mutex);
  while (!stopping) {
    lock.unlock();
    if (const absl::Status status = dispatcher.Tick(); !status.ok()) {
      spdlog::warn("looking for silent workers: {}", status.ToString());
    }
    flow.Tick();
    feed.Tick();
    if (ticks++ % kTicksPerCollection == 0) Collect();
    lock.lock();
    tick_changed.wait_for(lock, kTick, [this] { return stopping.load(); });
  }
}

HeadcountServer::HeadcountServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HeadcountServer::~HeadcountServer() { Stop(std::chrono::seconds(5)); }

absl::StatusOr<std::unique_ptr<HeadcountServer>> HeadcountServer::Start(const Config& config,
                                                                        ServerParts parts) {
  std::unique_ptr<HeadcountServer> server(
      new HeadcountServer(std::make_unique<State>(config, std::move(parts))));
  State& state = *server->state_;
  state.Connect();
  HC_RETURN_IF_ERROR(state.Resume());
  HC_RETURN_IF_ERROR(state.Open());
  state.ticker = std::thread([&state] { state.Tick(); });
  return server;
}

const Endpoints& HeadcountServer::endpoints() const { return state_->endpoints; }
queue::Dispatcher& HeadcountServer::dispatcher() { return state_->dispatcher; }
store::JobStore& HeadcountServer::jobs() { return *state_->parts.jobs; }
int64_t HeadcountServer::watch_streams() const { return state_->feed.size(); }

void HeadcountServer::Stop(std::chrono::milliseconds grace) {
  State& state = *state_;
  if (state.stopping.exchange(true)) return;
  {
    std::lock_guard lock(state.tick_mutex);
  }
  state.tick_changed.notify_all();
  for (Listener* listener : {&state.clients, &state.workers}) {
    if (listener->server != nullptr) ReportStopping(*listener);
  }
  state.held.Stop();
  state.feed.Tick();  // watchers wake, see that the server stops and end
  // gRPC takes a wall-clock time point; nothing is decided by it but how long calls may go on.
  const gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_millis(grace.count(), GPR_TIMESPAN));
  for (Listener* listener : {&state.clients, &state.workers}) {
    if (listener->server == nullptr) continue;
    listener->server->Shutdown(deadline);
    listener->server->Wait();
  }
  if (state.ticker.joinable()) state.ticker.join();
  state.flow.Stop();
  // From here on nobody calls back into what is about to go.
  state.parts.jobs->SetListener(nullptr);
}

}  // namespace headcount::server
