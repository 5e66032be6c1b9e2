// Keeps this machine's workers running: starts one where its device's lock is free, restarts one
// that ends (after 0.2 s, doubling to 30 s while it keeps ending soon), and finds again one that
// outlived an earlier server instead of doubling it. Called by headcountd.
//
// Thread-safe; one thread supervises all. What cannot be started is logged and tried again.

#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"

namespace headcount::server {

struct WorkerCommand {
  std::string id;  // the worker's id towards the server
  std::vector<std::string> arguments;
  std::string log;   // its output is appended here
  std::string lock;  // held by the worker that has the device
};

struct LauncherOptions {
  Clock::Duration poll = std::chrono::milliseconds(50);
  Clock::Duration first_backoff = std::chrono::milliseconds(200);
  Clock::Duration longest_backoff = std::chrono::seconds(30);
  // A worker that ran for this long starts again at the first backoff.
  Clock::Duration settled = std::chrono::seconds(30);
};

class ProcessLauncher {
 public:
  struct Events {
    // A worker ended: its lease can be freed at once.
    std::function<void(const std::string& id, const std::string& detail)> died;
    // Whether a worker that ended cleanly was told to: then it stays down.
    std::function<bool(const std::string& id)> drained;
  };

  // `clock` is not owned; events are called from the launcher's thread.
  ProcessLauncher(std::vector<WorkerCommand> commands, Clock& clock, Events events,
                  LauncherOptions options = {});
  // Leaves running workers alone.
  ~ProcessLauncher();

  void Start();
  // SIGTERM to all, those found again too; waits at most `grace`, then kills its own children.
  void Stop(Clock::Duration grace);

  // Processes that run now, by command; 0: none known.
  std::vector<int> Pids() const;

 private:
  struct Slot {
    WorkerCommand command;
    int child = 0;       // 0: not ours or not running
    bool found = false;  // somebody else's process holds the lock
    bool down = false;   // told to stop: not started again
    Clock::Duration started{};
    Clock::Duration next_start{};
    Clock::Duration backoff{};
    std::string last_error;
  };

  void Loop();
  void Look(Slot& slot, Clock::Duration now);
  void Ended(Slot& slot, Clock::Duration now, const std::string& detail, bool clean);
  bool WaitForAll(Clock::Duration grace);

  Clock& clock_;
  const Events events_;
  const LauncherOptions options_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace headcount::server
