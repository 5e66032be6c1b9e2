// See event_printer.h.

#include "client/cli/event_printer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace headcount::cli {

std::string DurationText(double seconds) {
  const int64_t s = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
  return absl::StrFormat("%d:%02d", s / 60, s % 60);
}

std::string StateText(v1::Job::State state) { return v1::Job::State_Name(state); }

EventPrinter::EventPrinter(const Style& style, const Clock& clock, bool quiet)
    : style_(style), clock_(clock), quiet_(quiet) {}

EventPrinter::~EventPrinter() { ClearProgress(); }

void EventPrinter::ClearProgress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

void EventPrinter::Line(const std::string& text) {
  ClearProgress();
  std::printf("%s\n", Printable(text).c_str());
  std::fflush(stdout);
}

void EventPrinter::Note(const std::string& line) {
  ClearProgress();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void EventPrinter::DrawProgress(const v1::Progress& progress) {
  if (quiet_) return;
  const double part = progress.total_rows() > 0
                          ? static_cast<double>(progress.done_rows()) / progress.total_rows()
                          : 0;
  const std::string eta = progress.remaining_seconds() >= 0 && progress.rows_per_second() > 0
                              ? DurationText(progress.remaining_seconds())
                              : "-:--";
  const std::string rate = progress.rows_per_second() > 0
                               ? absl::StrFormat("%.1f rows/s", progress.rows_per_second())
                               : "";
  const std::string stage =
      progress.jobs() > 0 ? absl::StrFormat("%d/%d jobs", progress.done_jobs(), progress.jobs())
      : progress.stage().empty() ? "waiting"
                                 : progress.stage();
  const std::string ahead =
      progress.queue_position() > 0
          ? absl::StrFormat("  %d ahead in the queue", progress.queue_position())
          : "";
  if (style_.interactive) {
    constexpr int kWidth = 28;
    const int filled = static_cast<int>(part * kWidth);
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
    std::fprintf(stderr, "\r\x1b[K%-8s %s %3.0f %%  %lld/%lld rows  %s  ETA %s%s", stage.c_str(),
                 bar.c_str(), 100 * part, static_cast<long long>(progress.done_rows()),
                 static_cast<long long>(progress.total_rows()), rate.c_str(), eta.c_str(),
                 ahead.c_str());
    std::fflush(stderr);
    drawn_ = true;
    return;
  }
  // Not a terminal: a line at each tenth, or every 30 s.
  const int percent = static_cast<int>(part * 10) * 10;
  const Clock::Duration now = clock_.Monotonic();
  if (stage == last_stage_ && percent == last_percent_ &&
      now - last_line_ < std::chrono::seconds(30))
    return;
  last_stage_ = stage;
  last_percent_ = percent;
  last_line_ = now;
  std::fprintf(stderr, "%s: %.0f %% (%lld/%lld rows) %s, ETA %s%s\n", stage.c_str(), 100 * part,
               static_cast<long long>(progress.done_rows()),
               static_cast<long long>(progress.total_rows()), rate.c_str(), eta.c_str(),
               ahead.c_str());
}

void EventPrinter::Print(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kSnapshot:
      if (event.snapshot().has_progress()) DrawProgress(event.snapshot().progress());
      break;
    case v1::JobEvent::kProgress:
      DrawProgress(event.progress());
      break;
    case v1::JobEvent::kStateChanged: {
      const v1::StateChanged& change = event.state_changed();
      std::string text = absl::StrCat(Bold(style_, StateText(change.to())));
      if (!change.reason().empty()) absl::StrAppend(&text, "  ", change.reason());
      if (change.has_error()) absl::StrAppend(&text, ": ", change.error().message());
      ClearProgress();
      std::printf("%s\n", text.c_str());
      std::fflush(stdout);
      break;
    }
    case v1::JobEvent::kStagePlanned: {
      const v1::StagePlanned& stage = event.stage_planned();
      std::string text =
          absl::StrCat(stage.stage(), ": ", stage.units(), stage.units() == 1 ? " unit" : " units");
      if (stage.samples() > 0) absl::StrAppend(&text, ", ", stage.samples(), " samples");
      if (stage.rules() > 0) absl::StrAppend(&text, " x ", stage.rules(), " rules");
      if (stage.reused_units() > 0) {
        absl::StrAppend(&text, ", ", stage.reused_units(), " computed before");
      }
      Line(text);
      break;
    }
    case v1::JobEvent::kTaskLost: {
      const v1::TaskLost& lost = event.task_lost();
      Line(absl::StrCat("lost a task of ", lost.worker(), " (", lost.cause(),
                        "); its work is done again"));
      break;
    }
    case v1::JobEvent::kCurvePoint: {
      const v1::CurvePointChanged& point = event.curve_point();
      if (!point.final()) break;
      Line(absl::StrFormat("%-26s %5.1f %% of heads zeroed  accuracy %5.1f %%  (%d documents)",
                           point.rule() < 0 ? "baseline" : point.curve(),
                           100 * point.share_zeroed(), 100 * point.accuracy(), point.documents()));
      break;
    }
    default:
      break;  // unit_stored is told by progress; kinds of a newer server are left out
  }
}

}  // namespace headcount::cli
