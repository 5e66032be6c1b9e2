// endpoints.json, which tests and scripts read.

#include "server/api/endpoints_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "tests/common/base/temp_folder.h"

namespace headcount::server {
namespace {

TEST(EndpointsFile, HoldsTheThreeAddresses) {
  TempFolder folder;
  ASSERT_TRUE(WriteEndpoints(folder.path(), {"127.0.0.1:1", "127.0.0.1:2", ""}).ok());
  const auto json = nlohmann::json::parse(*ReadFile(folder.File("endpoints.json")));
  EXPECT_EQ(json["listen"], "127.0.0.1:1");
  EXPECT_EQ(json["worker_listen"], "127.0.0.1:2");
  EXPECT_EQ(json["metrics_listen"], "");
}

}  // namespace
}  // namespace headcount::server
