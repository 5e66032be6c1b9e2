// Gauges of the server's state, taken when Prometheus asks: queue, workers, leases, store, process.
// Thread-safe. What cannot be read now is left out.

#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>

#include <string>
#include <vector>

#include "server/queue/dispatcher.h"
#include "server/store/job_store.h"
#include "server/watch/event_feed.h"

namespace headcount::server {

class MetricGauges final : public prometheus::Collectable {
 public:
  // None is owned.
  MetricGauges(store::JobStore& jobs, queue::Dispatcher& dispatcher, EventFeed& feed,
               std::string version);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  store::JobStore& jobs_;
  queue::Dispatcher& dispatcher_;
  EventFeed& feed_;
  const std::string version_;
};

}  // namespace headcount::server
