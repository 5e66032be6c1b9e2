// A job's kind and workload are those of the arm of its spec, as the contract spells it.

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

TEST(WorkloadOf, IsThatOfTheArmThatIsSet) {
  v1::Job job;
  EXPECT_EQ(WorkloadOf(job).model(), "");
  job.mutable_score()->mutable_workload()->set_model("scored");
  EXPECT_EQ(WorkloadOf(job).model(), "scored");
  job.mutable_ablate()->mutable_workload()->set_model("ablated");
  EXPECT_EQ(WorkloadOf(job).model(), "ablated");
}

TEST(WorkloadOf, EveryKindHasOne) {
  const auto* spec = v1::Job::descriptor()->FindOneofByName("spec");
  ASSERT_NE(spec, nullptr);
  for (int i = 0; i < spec->field_count(); ++i) {
    v1::Job job;
    auto* arm = job.GetReflection()->MutableMessage(&job, spec->field(i));
    const auto* field = arm->GetDescriptor()->FindFieldByName("workload");
    ASSERT_NE(field, nullptr) << spec->field(i)->name();
    auto* workload = arm->GetReflection()->MutableMessage(arm, field);
    EXPECT_EQ(&WorkloadOf(job), workload) << spec->field(i)->name();
    EXPECT_EQ(MutableWorkloadOf(&job), workload) << spec->field(i)->name();
  }
}

}  // namespace
}  // namespace headcount::format
