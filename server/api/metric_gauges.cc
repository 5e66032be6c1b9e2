// See metric_gauges.h.

#include "server/api/metric_gauges.h"

#include <unistd.h>

#include <fstream>
#include <utility>

#include "common/catalog/numerics_version.h"

namespace headcount::server {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;

class Families {
 public:
  // A family without values is not shown.
  void Begin(const char* name, const char* help, prometheus::MetricType type) {
    families_.push_back({name, help, type, {}});
  }
  void Add(double value, Labels labels = {}) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    metric.gauge.value = value;
    metric.counter.value = value;
    families_.back().metric.push_back(std::move(metric));
  }
  void One(const char* name, const char* help, double value) {
    Begin(name, help, prometheus::MetricType::Gauge);
    Add(value);
  }
  std::vector<prometheus::MetricFamily> Take() {
    std::erase_if(families_, [](const auto& family) { return family.metric.empty(); });
    return std::move(families_);
  }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

double ResidentBytes() {
  std::ifstream in("/proc/self/statm");
  double total = 0;
  double resident = 0;
  in >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

MetricGauges::MetricGauges(store::JobStore& jobs, queue::Dispatcher& dispatcher, EventFeed& feed,
                           std::string version)
    : jobs_(jobs), dispatcher_(dispatcher), feed_(feed), version_(std::move(version)) {}

std::vector<prometheus::MetricFamily> MetricGauges::Collect() const {
  constexpr auto kGauge = prometheus::MetricType::Gauge;
  constexpr auto kCounter = prometheus::MetricType::Counter;
  Families out;
  if (const auto totals = jobs_.GetTotals(); totals.ok()) {
    out.Begin("headcount_jobs", "Jobs in the store, by state", kGauge);
    int64_t queued = 0;
    for (const auto& [state, count] : totals->jobs) {
      out.Add(static_cast<double>(count), {{"state", v1::Job::State_Name(state)}});
      if (state == v1::Job::QUEUED) queued += count;
    }
    out.One("headcount_queue_jobs", "Jobs that wait for a worker", static_cast<double>(queued));
    out.One("headcount_queue_oldest_age_seconds", "Age of the oldest job that waits",
            totals->oldest_queued_seconds);
    out.One("headcount_live_leases", "Tasks that workers hold",
            static_cast<double>(totals->live_leases));
    out.One("headcount_store_bytes", "Bytes of stored chunks",
            static_cast<double>(totals->chunk_bytes));
  }
  out.Begin("headcount_worker_up", "1 for a worker that is heard of, 0 for one that is lost",
            kGauge);
  for (const v1::WorkerInfo& worker : dispatcher_.Workers()) {
    out.Add(worker.state() == "lost" ? 0 : 1, {{"worker", worker.worker()}});
  }
  double expired = 0;
  out.Begin("headcount_task_retries_total", "Tasks that ended without their work being done",
            kCounter);
  for (const auto& [cause, count] : dispatcher_.LostTasks()) {
    out.Add(static_cast<double>(count), {{"cause", cause}});
    if (cause == "LEASE_EXPIRED") expired += static_cast<double>(count);
  }
  out.Begin("headcount_lease_expirations_total", "Leases that ended by silence", kCounter);
  out.Add(expired);
  out.One("headcount_watch_streams", "Open WatchJob streams", static_cast<double>(feed_.size()));
  out.Begin("headcount_build_info", "1; what runs here", kGauge);
  out.Add(1,
          {{"version", version_}, {"numerics_version", std::to_string(catalog::kNumericsVersion)}});
  out.One("process_resident_memory_bytes", "Resident memory of headcountd", ResidentBytes());
  return out.Take();
}

}  // namespace headcount::server
