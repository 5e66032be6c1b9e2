// headcountd without its main: puts the parts together, listens, and stops in order. The program
// and the tests start it the same way; only store, clock and ids are theirs to choose.
//
// Thread-safe. Errors of Start: UNAVAILABLE for an address that cannot be listened on, the store's.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/config/config.h"
#include "server/api/authoriser.h"
#include "server/queue/dispatcher.h"
#include "server/store/artifact_store.h"
#include "server/store/job_store.h"

namespace headcount::server {

struct ServerParts {
  std::unique_ptr<store::JobStore> jobs;
  std::unique_ptr<store::ArtifactStore> artifacts;
  std::unique_ptr<Authoriser> authoriser;
  std::string shipped_tasks;  // folder
  Clock* clock = &Clock::System();
  IdGenerator* ids = &IdGenerator::System();
};

// host:port, with the ports that were chosen; metrics is empty where there are none.
struct Endpoints {
  std::string listen;
  std::string worker_listen;
  std::string metrics_listen;
};

class HeadcountServer {
 public:
  static absl::StatusOr<std::unique_ptr<HeadcountServer>> Start(const Config& config,
                                                                ServerParts parts);
  // Stops, if Stop was not called.
  ~HeadcountServer();

  const Endpoints& endpoints() const;
  queue::Dispatcher& dispatcher();
  store::JobStore& jobs();
  int64_t watch_streams() const;  // open now

  // Takes no new calls, ends streams and held calls with UNAVAILABLE, waits at most `grace` for
  // the others. What is stored is safe at any time.
  void Stop(std::chrono::milliseconds grace);

 private:
  struct State;

  explicit HeadcountServer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace headcount::server
