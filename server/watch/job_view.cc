// See job_view.h.

#include "server/watch/job_view.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <string>

#include "common/catalog/scores.h"

namespace headcount::server {

bool IsTerminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

int64_t UnplannedRows(const v1::Job& job) {
  const v1::Progress& progress = job.progress();
  const bool preparing = progress.stage().empty() || progress.stage() == "prepare";
  if (preparing) return -1;
  if (job.spec_case() == v1::Job::kFrontier) return -1;  // it ends when its answer is there
  if (job.spec_case() != v1::Job::kSweep || progress.stage() != "score") return 0;
  int64_t fractions = 0;
  for (const double fraction : job.sweep().fractions()) fractions += fraction > 0 ? 1 : 0;
  constexpr int64_t kDefaultFractions = 6;
  if (job.sweep().fractions().empty()) fractions = kDefaultFractions;
  int64_t curves = 0;
  for (const std::string& name : job.sweep().scores()) {
    const auto score = catalog::FindScore(name);
    const bool random = score.ok() && (*score)->is_random();  // has no controls
    curves += random ? 1 : 1 + job.sweep().controls_size();
  }
  // While a sweep scores, its rows are one a sample.
  return progress.total_rows() * fractions * curves;
}

double RemainingSeconds(const v1::Job& job, double rows_per_second) {
  if (IsTerminal(job.state())) return 0;
  const int64_t unplanned = UnplannedRows(job);
  if (unplanned < 0 || !(rows_per_second > 0)) return -1;
  const int64_t planned = job.progress().total_rows() - job.progress().done_rows();
  return static_cast<double>(planned + unplanned) / rows_per_second;
}

v1::Progress SumProgress(const std::vector<v1::Job>& children, int jobs, bool ended) {
  v1::Progress sum;
  sum.set_jobs(jobs);
  int64_t rows = 0;  // of children whose rows are known, and how many those are
  int64_t done = 0;
  int known = 0;
  for (const v1::Job& child : children) {
    const v1::Progress& progress = child.progress();
    sum.set_done_units(sum.done_units() + progress.done_units());
    sum.set_total_units(sum.total_units() + progress.total_units());
    sum.set_done_rows(sum.done_rows() + progress.done_rows());
    sum.set_total_rows(sum.total_rows() + progress.total_rows());
    sum.set_reused_units(sum.reused_units() + progress.reused_units());
    sum.set_rows_per_second(sum.rows_per_second() + progress.rows_per_second());
    sum.set_done_jobs(sum.done_jobs() + (child.state() == v1::Job::SUCCEEDED ? 1 : 0));
    const int64_t unplanned = IsTerminal(child.state()) ? 0 : UnplannedRows(child);
    if (unplanned < 0) continue;
    rows += progress.total_rows() + unplanned;
    done += progress.done_rows();
    ++known;
  }
  sum.set_remaining_seconds(-1);
  if (ended) {
    sum.set_remaining_seconds(0);
  } else if (known > 0 && sum.rows_per_second() > 0) {
    const double all = static_cast<double>(rows) * jobs / known;
    sum.set_remaining_seconds((all - static_cast<double>(done)) / sum.rows_per_second());
  }
  return sum;
}

int64_t QueuePosition(const v1::Job& job, const store::QueueView& view) {
  if (job.state() != v1::Job::QUEUED) return 0;
  const int64_t created =
      google::protobuf::util::TimeUtil::TimestampToNanoseconds(job.create_time());
  return std::count_if(view.runnable.begin(), view.runnable.end(),
                       [&](const store::RunnableStage& other) {
                         if (other.job == job.name()) return false;
                         if (other.priority != job.priority())
                           return other.priority > job.priority();
                         return other.created.count() < created;
                       });
}

}  // namespace headcount::server
