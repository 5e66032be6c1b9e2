// Follows a job to its end: progress bar on a terminal, lines elsewhere, one event a line with
// --json. Reconnects when the server goes away, with the resume token, so that every event is
// printed once.

#pragma once

#include <chrono>
#include <string>

#include "client/cli/context.h"

namespace headcount::cli {

struct WatchOptions {
  bool quiet = false;                  // no progress
  std::string resume_token;            // raw bytes; empty: from the first event
  std::chrono::seconds patience{600};  // how long the server may be away
};

// Sets the context's exit code by how the job or the watch ended. True when the job SUCCEEDED.
bool Watch(Context& context, const std::string& job_name, const WatchOptions& options);

}  // namespace headcount::cli
