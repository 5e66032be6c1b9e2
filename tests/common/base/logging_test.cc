// Log levels: the known ones set the level, others are refused by name.

#include "common/base/logging.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "common/base/errors.h"

namespace headcount {
namespace {

TEST(Logging, TheLevelIsSet) {
  ASSERT_EQ(InitLogging("logging-test", "warn"), absl::OkStatus());
  EXPECT_EQ(spdlog::default_logger()->name(), "logging-test");
  EXPECT_EQ(spdlog::default_logger()->level(), spdlog::level::warn);
}

TEST(Logging, AnUnknownLevelIsRefused) {
  const absl::Status status = InitLogging("logging-test-2", "loud");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(FieldOf(status), "log-level");
  EXPECT_EQ(InitLogging("logging-test-3", "off"), absl::OkStatus());
}

}  // namespace
}  // namespace headcount
