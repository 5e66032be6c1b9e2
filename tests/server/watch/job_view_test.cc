// Rate, remaining time and queue position of a job as clients see it.

#include "server/watch/job_view.h"

#include <gtest/gtest.h>

namespace headcount::server {
namespace {

v1::Job Sweep(const std::string& stage, int64_t done, int64_t total) {
  v1::Job job;
  job.set_state(v1::Job::RUNNING);
  job.mutable_sweep()->add_scores("entropy");
  job.mutable_sweep()->add_scores("random");
  job.mutable_progress()->set_stage(stage);
  job.mutable_progress()->set_done_rows(done);
  job.mutable_progress()->set_total_rows(total);
  return job;
}

TEST(JobView, NothingIsKnownBeforeTheManifest) {
  EXPECT_LT(RemainingSeconds(Sweep("prepare", 0, 0), 10), 0);
  EXPECT_LT(RemainingSeconds(Sweep("", 0, 0), 10), 0);
}

TEST(JobView, ASweepThatScoresCountsTheRulesToCome) {
  // 80 samples, 2 scores x 6 fractions (the default): 960 rows follow the 60 that are left.
  EXPECT_EQ(UnplannedRows(Sweep("score", 20, 80)), 960);
  EXPECT_DOUBLE_EQ(RemainingSeconds(Sweep("score", 20, 80), 10), 102);
  v1::Job job = Sweep("score", 0, 80);
  job.mutable_sweep()->add_fractions(0);  // is dropped
  job.mutable_sweep()->add_fractions(.5);
  EXPECT_EQ(UnplannedRows(job), 160);
  job.mutable_sweep()->add_controls(v1::CONTROL_SHUFFLED);
  EXPECT_EQ(UnplannedRows(job), 240) << "random has no controls";
}

TEST(JobView, TheLastStageCountsItsOwnRows) {
  EXPECT_DOUBLE_EQ(RemainingSeconds(Sweep("ablate", 80, 1040), 10), 96);
}

TEST(JobView, WithoutARateTheTimeIsUnknownAndAnEndedJobHasNone) {
  EXPECT_LT(RemainingSeconds(Sweep("ablate", 80, 1040), 0), 0);
  v1::Job job = Sweep("", 1040, 1040);
  job.set_state(v1::Job::SUCCEEDED);
  EXPECT_EQ(RemainingSeconds(job, 0), 0);
}

TEST(JobView, AJobMadeOfOthersShowsWhatTheirsComeTo) {
  v1::Job done = Sweep("", 1040, 1040);
  done.set_state(v1::Job::SUCCEEDED);
  v1::Job running = Sweep("score", 20, 80);  // 960 rows to come
  running.mutable_progress()->set_rows_per_second(10);
  running.mutable_progress()->set_total_units(3);
  v1::Job waiting = Sweep("prepare", 0, 0);
  const v1::Progress sum = SumProgress({done, running, waiting}, 4, /*ended=*/false);
  EXPECT_EQ(sum.jobs(), 4);
  EXPECT_EQ(sum.done_jobs(), 1);
  EXPECT_EQ(sum.done_rows(), 1060);
  EXPECT_EQ(sum.total_rows(), 1120);
  EXPECT_EQ(sum.total_units(), 3);
  EXPECT_DOUBLE_EQ(sum.rows_per_second(), 10);
  // Two are not known yet and taken to have 1,040 rows as the others have.
  EXPECT_DOUBLE_EQ(sum.remaining_seconds(), (4 * 1040 - 1060) / 10.0);
  EXPECT_LT(SumProgress({waiting}, 4, /*ended=*/false).remaining_seconds(), 0);
  EXPECT_EQ(SumProgress({done}, 1, /*ended=*/true).remaining_seconds(), 0);
}

TEST(JobView, QueuePositionCountsHigherPriorityAndOlderJobs) {
  v1::Job job;
  job.set_name("mine");
  job.set_state(v1::Job::QUEUED);
  job.mutable_create_time()->set_seconds(100);
  store::QueueView view;
  const auto add = [&](const std::string& name, int priority, int64_t seconds) {
    store::RunnableStage stage;
    stage.job = name;
    stage.priority = priority;
    stage.created = std::chrono::seconds(seconds);
    view.runnable.push_back(stage);
  };
  add("mine", 0, 100);
  EXPECT_EQ(QueuePosition(job, view), 0);
  add("older", 0, 50);
  add("younger", 0, 150);
  add("urgent", 10, 200);
  add("unimportant", -10, 10);
  EXPECT_EQ(QueuePosition(job, view), 2);
  job.set_state(v1::Job::RUNNING);
  EXPECT_EQ(QueuePosition(job, view), 0);
}

}  // namespace
}  // namespace headcount::server
