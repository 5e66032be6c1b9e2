// Names of projects and jobs.

#include "server/api/resource_names.h"

#include <gtest/gtest.h>

#include "common/base/errors.h"

namespace headcount::server {
namespace {

TEST(ResourceNames, ParentsAreProjects) {
  EXPECT_EQ(*ParseParent("parent", ""), "default");
  EXPECT_EQ(*ParseParent("parent", "projects/default"), "default");
  EXPECT_EQ(ReasonOf(ParseParent("parent", "projects/other").status()), "PROJECT_NOT_FOUND");
  for (const char* bad : {"default", "projects/", "projects/default/", "projects/a/b",
                          "/projects/a", "projects/..", "projects/a b", "Projects/default"}) {
    const absl::Status status = ParseParent("parent", bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(FieldOf(status), "parent");
  }
}

TEST(ResourceNames, JobsAreBelowProjects) {
  EXPECT_TRUE(CheckJobName("name", JobName("default", "k3v9x2m4qp")).ok());
  EXPECT_EQ(CheckJobName("name", "projects/other/jobs/x").code(), absl::StatusCode::kNotFound);
  for (const char* bad : {"", "x", "projects/default/jobs/", "projects/default/jobs/..",
                          "projects/default/jobs/a/b", "projects/default/tasks/a"}) {
    EXPECT_EQ(CheckJobName("name", bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace headcount::server
