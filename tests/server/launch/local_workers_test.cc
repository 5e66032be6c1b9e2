// Which workers a machine gets and what they are called with.

#include "server/launch/local_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/common/base/temp_folder.h"

namespace headcount::server {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Devices(const std::vector<LocalWorker>& workers) {
  std::vector<std::string> out;
  for (const LocalWorker& worker : workers) out.push_back(worker.device);
  return out;
}

TEST(LocalWorkers, OneForEachCudaDeviceElseOneOnTheCpu) {
  TempFolder folder;
  EXPECT_THAT(Devices(LocalWorkers({}, folder.path())), ElementsAre("cpu"));
  EXPECT_THAT(Devices(LocalWorkers({}, folder.File("missing"))), ElementsAre("cpu"));
  for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia0", "nvidia7", "nvidia12x", "null"}) {
    std::ofstream(folder.File(name)) << "";
  }
  EXPECT_THAT(Devices(LocalWorkers({}, folder.path())), ElementsAre("cuda:0", "cuda:1"));
}

TEST(LocalWorkers, TheConfigurationDecidesAlsoWithNone) {
  Config config;
  config.workers_set = true;
  EXPECT_TRUE(LocalWorkers(config).empty());
  config.workers = {{"cuda:3", 0}, {"cpu", 4}};
  EXPECT_THAT(Devices(LocalWorkers(config)), ElementsAre("cuda:3", "cpu"));
}

TEST(LocalWorkers, TheCommandNamesEverythingAWorkerNeeds) {
  const LaunchPlace place = {"my host", "/opt/headcount-worker", "/state/workers/config.yaml",
                             "127.0.0.1:7434", "/state"};
  const WorkerCommand command = CommandFor({"cuda:1", 6}, place);
  EXPECT_EQ(command.id, "my-host-cuda-1");
  EXPECT_THAT(command.arguments,
              ElementsAre("/opt/headcount-worker", "--config", "/state/workers/config.yaml",
                          "--server", "127.0.0.1:7434", "--device", "cuda:1", "--worker-id",
                          "my-host-cuda-1", "--threads", "6"));
  EXPECT_EQ(command.lock, "/state/workers/cuda:1.lock");
  EXPECT_EQ(command.log, "/state/logs/my-host-cuda-1.log");
  EXPECT_EQ(CommandFor({"cpu", 0}, place).arguments.size(), 9u);
  LaunchPlace with_tasks = place;
  with_tasks.tasks = "/srv/tasks";
  const auto arguments = CommandFor({"cpu", 0}, with_tasks).arguments;
  EXPECT_EQ(arguments[arguments.size() - 2], "--tasks");
  EXPECT_EQ(arguments.back(), "/srv/tasks");
}

}  // namespace
}  // namespace headcount::server
