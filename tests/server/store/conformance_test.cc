// The backends that conformance.h runs on.

#include "tests/server/store/conformance.h"
#include "server/store/sqlite_job_store.h"
#include "server/store/testing/faulty_job_store.h"

namespace headcount::store {
namespace {

std::unique_ptr<JobStore> OpenSqlite(const std::string& path, Clock& clock) {
  auto store = SqliteJobStore::Open(path, clock);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

const Backend kSqliteFile{"SqliteFile", true, [](const std::string& folder, Clock& clock) {
                            return OpenSqlite(folder + "/jobs.db", clock);
                          }};
const Backend kSqliteMemory{"SqliteMemory", false, [](const std::string&, Clock& clock) {
                              return OpenSqlite(":memory:", clock);
                            }};
const Backend kFaultless{
    "Faultless", false, [](const std::string&, Clock& clock) -> std::unique_ptr<JobStore> {
      return std::make_unique<FaultyJobStore>(OpenSqlite(":memory:", clock), FaultRates{});
    }};

std::string NameOf(const ::testing::TestParamInfo<Backend>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Backends, JobStoreConformance,
                         ::testing::Values(kSqliteFile, kSqliteMemory, kFaultless), NameOf);
INSTANTIATE_TEST_SUITE_P(Backends, DurableJobStoreConformance, ::testing::Values(kSqliteFile),
                         NameOf);

}  // namespace
}  // namespace headcount::store
