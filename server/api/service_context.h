// What every service is given: the parts of the server, and the two steps that come before every
// call on a job: who is it, and may they. Built once by HeadcountServer. Thread-safe as its parts
// are.

#pragma once

#include <grpcpp/server_context.h>

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/config/config.h"
#include "headcount/v1/job.pb.h"
#include "server/api/authoriser.h"
#include "server/api/metrics.h"
#include "server/api/work_pool.h"
#include "server/catalog/server_catalog.h"
#include "server/plan/flow_runner.h"
#include "server/queue/dispatcher.h"
#include "server/queue/manifest_cache.h"
#include "server/queue/report_sink.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"
#include "server/watch/event_feed.h"

namespace headcount::server {

struct ServiceContext {
  const Config& config;
  Clock& clock;
  IdGenerator& ids;
  const Authoriser& authoriser;
  store::JobStore& jobs;
  store::ArtifactStore& artifacts;
  ServerCatalog& catalog;
  plan::FlowRunner& flow;
  queue::Dispatcher& dispatcher;
  queue::ManifestCache& manifests;
  queue::ReportSink& reports;
  EventFeed& feed;
  Metrics& metrics;
  WorkPool& quick;   // store calls and file headers
  WorkPool& slow;    // results and exports, which may take minutes
  WorkPool& stream;  // next messages of watchers
  std::function<bool()> stopping;

  // The caller's user name. INVALID_ARGUMENT.
  absl::StatusOr<std::string> Caller(const grpc::CallbackServerContext& call) const;
  // The job of a request, if the caller may do this to it: INVALID_ARGUMENT for what is no job's
  // name, NOT_FOUND (JOB_NOT_FOUND) also for what belongs to somebody else.
  absl::StatusOr<v1::Job> FindJob(const grpc::CallbackServerContext& call, Action action,
                                  const std::string& field, const std::string& name) const;
  // The job as clients see it: with the rate it runs at and the time that remains; of one that is
  // made of others, what theirs come to.
  v1::Job Shown(v1::Job job) const;
  // And, while it waits, its place in the queue, which takes a look at the whole queue.
  v1::Job ShownWithPosition(v1::Job job) const;

 private:
  v1::Progress ProgressOfChildren(const v1::Job& job, int count) const;
};

}  // namespace headcount::server
