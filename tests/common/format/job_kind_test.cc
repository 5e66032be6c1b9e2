// A job's kind is the name of the arm of its spec, as the contract spells it.

#include "common/format/job_kind.h"

#include <gtest/gtest.h>

namespace headcount::format {
namespace {

TEST(JobKind, IsTheArmThatIsSet) {
  v1::Job job;
  EXPECT_EQ(JobKind(job), "");
  job.mutable_sweep();
  EXPECT_EQ(JobKind(job), "sweep");
  job.mutable_score();
  EXPECT_EQ(JobKind(job), "score");
  job.mutable_knockout();
  EXPECT_EQ(JobKind(job), "knockout");
}

}  // namespace
}  // namespace headcount::format
