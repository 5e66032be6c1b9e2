// See metrics.h.

#include "server/api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/family.h>

#include <cstring>
#include <exception>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/format/job_kind.h"
#include "server/api/metric_gauges.h"
#include "server/watch/job_view.h"

namespace headcount::server {
namespace {

prometheus::Family<prometheus::Counter>& Counter(prometheus::Registry& registry,
                                                 const std::string& name, const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

}  // namespace

class Metrics::Exposer {
 public:
  explicit Exposer(const std::string& listen) : exposer_(listen) {}
  prometheus::Exposer& operator*() { return exposer_; }

 private:
  prometheus::Exposer exposer_;
};

Metrics::Metrics(store::JobStore& jobs, queue::Dispatcher& dispatcher, EventFeed& feed,
                 const std::string& version)
    : jobs_(jobs),
      registry_(std::make_shared<prometheus::Registry>()),
      gauges_(std::make_shared<MetricGauges>(jobs, dispatcher, feed, version)),
      handled_(Counter(*registry_, "grpc_server_handled_total", "Calls ended, by status code")),
      submitted_(Counter(*registry_, "headcount_jobs_submitted_total", "Jobs created")),
      finished_(Counter(*registry_, "headcount_jobs_finished_total", "Jobs ended")),
      samples_(Counter(*registry_, "headcount_samples_processed_total",
                       "Rows (rule, sample) whose results were stored")),
      tokens_(Counter(*registry_, "headcount_tokens_processed_total",
                      "Tokens of rows whose results were stored")) {}

Metrics::~Metrics() = default;

void Metrics::Handled(const char* method, absl::StatusCode code) {
  const char* slash = std::strchr(method, '/');
  handled_
      .Add({{"grpc_service",
             absl::StrCat("headcount.v1.", absl::string_view(method, slash - method))},
            {"grpc_method", slash + 1},
            {"grpc_code",
             code == absl::StatusCode::kUnknown ? "INTERNAL" : absl::StatusCodeToString(code)}})
      .Increment();
}

void Metrics::JobOpened(const v1::Job& job, bool submitted) {
  if (submitted) submitted_.Add({{"kind", format::JobKind(job)}}).Increment();
  std::lock_guard lock(mutex_);
  open_.insert(job.name());
}

void Metrics::JobChanged(const std::string& name) {
  {
    std::lock_guard lock(mutex_);
    if (!open_.contains(name)) return;
  }
  const auto job = jobs_.GetJob(name);
  if (job.ok() && !IsTerminal(job->state())) return;
  {
    std::lock_guard lock(mutex_);
    if (open_.erase(name) == 0) return;
  }
  if (!job.ok()) return;
  finished_.Add({{"kind", format::JobKind(*job)}, {"state", v1::Job::State_Name(job->state())}})
      .Increment();
}

void Metrics::UnitStored(const v1::ReportHeader& header) {
  const auto job = jobs_.GetJob(header.job());
  const auto stage = store::ParseStage(header.stage());
  if (!job.ok() || !stage.ok() || *stage == store::Stage::kPrepare) return;
  const auto chunks = jobs_.ListChunks(header.job(), *stage, header.unit(), 1);
  if (!chunks.ok() || chunks->empty()) return;
  const std::string& model = format::WorkloadOf(*job).model();
  samples_.Add({{"model", model}}).Increment(static_cast<double>(chunks->front().counts.rows()));
  tokens_.Add({{"model", model}}).Increment(static_cast<double>(header.tokens()));
}

absl::StatusOr<std::string> Metrics::Expose(const std::string& listen) {
  try {
    exposer_ = std::make_unique<Exposer>(listen);
    (**exposer_).RegisterCollectable(registry_);
    (**exposer_).RegisterCollectable(gauges_);
    const std::vector<int> ports = (**exposer_).GetListeningPorts();
    return std::string(absl::StrCat(listen.substr(0, listen.rfind(':')), ":", ports.at(0)));
  } catch (const std::exception& error) {
    exposer_.reset();
    return absl::UnavailableError(
        absl::StrCat("metrics_listen: cannot listen on ", listen, ": ", error.what()));
  }
}

}  // namespace headcount::server
