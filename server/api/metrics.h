// What Prometheus reads: counters the services raise, and gauges taken from the store and the
// dispatcher when it asks. No label comes from a client but names of the catalogue and of workers.
//
// Thread-safe. A scrape that cannot read the store leaves its gauges out.

#pragma once

#include <prometheus/collectable.h>
#include <prometheus/registry.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "headcount/v1/job.pb.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/api/call_stats.h"
#include "server/queue/dispatcher.h"
#include "server/store/job_store.h"
#include "server/watch/event_feed.h"

namespace headcount::server {

class Metrics final : public CallStats {
 public:
  // Neither is owned.
  Metrics(store::JobStore& jobs, queue::Dispatcher& dispatcher, EventFeed& feed,
          const std::string& version);
  ~Metrics() override;

  void Handled(const char* method, absl::StatusCode code) override;
  // A job was created, or found open at start (`submitted` false); its end is counted too.
  void JobOpened(const v1::Job& job, bool submitted);
  // The job may have ended.
  void JobChanged(const std::string& job);
  // A unit's chunk was stored.
  void UnitStored(const v1::ReportHeader& header);

  // What is to be exposed; lives as long as the metrics.
  std::shared_ptr<prometheus::Collectable> counters() const { return registry_; }
  std::shared_ptr<prometheus::Collectable> gauges() const { return gauges_; }

  // The address chosen for host:port. UNAVAILABLE when it cannot be listened on.
  absl::StatusOr<std::string> Expose(const std::string& listen);

 private:
  class Gauges;
  class Exposer;

  store::JobStore& jobs_;
  std::shared_ptr<prometheus::Registry> registry_;
  std::shared_ptr<prometheus::Collectable> gauges_;
  prometheus::Family<prometheus::Counter>& handled_;
  prometheus::Family<prometheus::Counter>& submitted_;
  prometheus::Family<prometheus::Counter>& finished_;
  prometheus::Family<prometheus::Counter>& samples_;
  prometheus::Family<prometheus::Counter>& tokens_;
  std::mutex mutex_;
  std::set<std::string> open_;  // jobs whose end is still to be counted
  std::unique_ptr<Exposer> exposer_;
};

}  // namespace headcount::server
