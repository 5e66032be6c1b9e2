// Prints the events of one job for people. Progress goes to standard error and is redrawn in place
// on a terminal; what happened goes to standard output. Not thread-safe.

#pragma once

#include <string>

#include "client/cli/style.h"
#include "common/base/clock.h"
#include "headcount/v1/job.pb.h"

namespace headcount::cli {

class EventPrinter {
 public:
  EventPrinter(const Style& style, const Clock& clock, bool quiet);
  ~EventPrinter();

  void Print(const v1::JobEvent& event);
  // A line about the watch itself, on standard error.
  void Note(const std::string& line);

 private:
  void Line(const std::string& text);
  void DrawProgress(const v1::Progress& progress);
  void ClearProgress();

  const Style& style_;
  const Clock& clock_;
  bool quiet_;
  bool drawn_ = false;
  int last_percent_ = -1;
  std::string last_stage_;
  Clock::Duration last_line_{};
};

// "1:07", "2:03:59".
std::string DurationText(double seconds);
// "SUCCEEDED" from the enum.
std::string StateText(v1::Job::State state);

}  // namespace headcount::cli
