// See job_view.h.

#include "server/watch/job_view.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>

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
  // While a sweep scores, its rows are one a sample.
  return progress.total_rows() * fractions * job.sweep().scores_size();
}

double RemainingSeconds(const v1::Job& job, double rows_per_second) {
  if (IsTerminal(job.state())) return 0;
  const int64_t unplanned = UnplannedRows(job);
  if (unplanned < 0 || !(rows_per_second > 0)) return -1;
  const int64_t planned = job.progress().total_rows() - job.progress().done_rows();
  return static_cast<double>(planned + unplanned) / rows_per_second;
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
