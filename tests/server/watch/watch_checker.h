// What WatchJob promises, as a pure function over recorded events: a snapshot first, durable events
// ordered, unique and dense after it, others with the last durable one's sequence, a token on each,
// nothing after the end. Several streams that resume one another are checked as one.

#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "headcount/v1/job.pb.h"

namespace headcount::server {

inline bool IsDurable(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kSnapshot:
    case v1::JobEvent::kProgress:
    case v1::JobEvent::EVENT_NOT_SET:
      return false;
    default:
      return true;
  }
}

inline bool IsEnd(const v1::JobEvent& event) {
  const v1::Job::State to = event.state_changed().to();
  return event.has_state_changed() &&
         (to == v1::Job::SUCCEEDED || to == v1::Job::FAILED || to == v1::Job::CANCELLED);
}

// Empty, or what is wrong. `quiet` streams leave events out, so they are not dense.
inline std::string CheckStream(const std::vector<v1::JobEvent>& events, bool quiet = false) {
  if (events.empty() || !events[0].has_snapshot()) return "the first event is no snapshot";
  int64_t last = events[0].sequence();
  bool ended = false;
  for (size_t i = 0; i < events.size(); ++i) {
    const v1::JobEvent& event = events[i];
    const std::string where = absl::StrCat("event ", i, ": ");
    if (ended) return where + "after the end";
    if (event.resume_token().empty()) return where + "no resume token";
    if (i > 0 && event.has_snapshot()) return where + "a second snapshot";
    if (quiet && (event.has_unit_stored() || event.has_progress())) return where + "not quiet";
    if (!IsDurable(event)) {
      if (!quiet && event.sequence() != last) return where + "not the last durable sequence";
      continue;
    }
    const bool next = quiet ? event.sequence() > last : event.sequence() == last + 1;
    if (!next) return absl::StrCat(where, "sequence ", event.sequence(), " after ", last);
    last = event.sequence();
    ended = IsEnd(event);
  }
  return "";
}

// The durable events of streams that resumed one another, in order.
inline std::vector<v1::JobEvent> DurableOf(const std::vector<std::vector<v1::JobEvent>>& streams) {
  std::vector<v1::JobEvent> out;
  for (const auto& stream : streams) {
    for (const v1::JobEvent& event : stream) {
      if (IsDurable(event)) out.push_back(event);
    }
  }
  return out;
}

// Empty, or where the two histories part. Tokens are not compared.
inline std::string CheckSame(const std::vector<v1::JobEvent>& got,
                             const std::vector<v1::JobEvent>& stored) {
  for (size_t i = 0; i < std::min(got.size(), stored.size()); ++i) {
    v1::JobEvent event = got[i];
    event.clear_resume_token();
    if (event.SerializeAsString() != stored[i].SerializeAsString()) {
      return absl::StrCat("event ", i, " differs: ", event.ShortDebugString(), " | ",
                          stored[i].ShortDebugString());
    }
  }
  if (got.size() == stored.size()) return "";
  return absl::StrCat(got.size(), " events, stored are ", stored.size());
}

}  // namespace headcount::server
