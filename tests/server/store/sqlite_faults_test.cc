// The storage fails under the store: the k-th write, sync or truncation, once and for ever, as an
// input/output error and as a full disk, and the power goes at the k-th, for every k that a job's
// whole life has. Each time: no call says OK to what is not there afterwards, nothing is half done,
// and the file is whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/store/sqlite_db.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/memory_vfs.h"
#include "tests/server/store/store_script.h"

namespace headcount::store {
namespace {

using Fault = MemoryVfs::Fault;

constexpr char kPath[] = "jobs.db";

absl::StatusOr<std::unique_ptr<JobStore>> Open(MemoryVfs& vfs, Clock& clock) {
  // A short log, so that moving it into the file is among what fails.
  return SqliteJobStore::Open(kPath, clock, {.vfs = vfs.name(), .checkpoint_pages = 20});
}

void ExpectIntact(MemoryVfs& vfs) {
  auto db = Database::Open(kPath, vfs.name());
  ASSERT_TRUE(db.ok()) << db.status();
  ASSERT_EQ((*db)->Script("PRAGMA locking_mode=EXCLUSIVE"), absl::OkStatus());
  auto check = (*db)->Query("PRAGMA integrity_check");
  auto row = check->Step();
  ASSERT_TRUE(row.ok() && *row) << row.status();
  EXPECT_EQ(check->Text(0), "ok");
  auto orphans = (*db)->Query("PRAGMA foreign_key_check");
  EXPECT_FALSE(*orphans->Step());
}

// UNAVAILABLE or RESOURCE_EXHAUSTED: what a caller waits and asks again for.
void ExpectRetryable(const absl::Status& status) {
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) << status;
}

// Writes, syncs and truncations of the script without a fault, opening and closing included.
int64_t Operations() {
  MemoryVfs vfs;
  FakeClock clock;
  vfs.FailAt(0, Fault::kIoError, false);
  StoreScript script;
  {
    auto store = Open(vfs, clock);
    EXPECT_TRUE(store.ok()) << store.status();
    script.Run(**store, false);
    script.ExpectWhole(**store);
  }
  EXPECT_THAT(script.failures(), ::testing::IsEmpty());
  ExpectIntact(vfs);
  EXPECT_GT(vfs.operations(), 100);
  return vfs.operations();
}

class SqliteFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(SqliteFaults, OneFailedOperationIsSurvivedByAskingAgain) {
  const int64_t operations = Operations();
  int64_t failures = 0;
  bool said_full = false;
  for (int64_t k = 1; k <= operations; ++k) {
    SCOPED_TRACE(absl::StrCat("k = ", k));
    MemoryVfs vfs;
    FakeClock clock;
    StoreScript script;
    vfs.FailAt(k, GetParam(), false);
    auto store = Open(vfs, clock);
    if (!store.ok()) {
      ExpectRetryable(store.status());
      ++failures;
      store = Open(vfs, clock);
    }
    ASSERT_TRUE(store.ok()) << store.status();
    script.Run(**store, true);
    script.ExpectWhole(**store);
    store->reset();
    for (const absl::Status& status : script.failures()) {
      ExpectRetryable(status);
      said_full |= absl::IsResourceExhausted(status);
    }
    failures += static_cast<int64_t>(script.failures().size());
    ExpectIntact(vfs);
    store = Open(vfs, clock);
    ASSERT_TRUE(store.ok()) << store.status();
    script.ExpectKept(**store);
    script.ExpectWhole(**store);
  }
  EXPECT_GT(failures, 30);  // the faults did reach the callers
  EXPECT_EQ(said_full, GetParam() == Fault::kDiskFull);
}

TEST_P(SqliteFaults, AStorageThatStaysBrokenLosesNothingAcknowledged) {
  const int64_t operations = Operations();
  for (int64_t k = 1; k <= operations; ++k) {
    SCOPED_TRACE(absl::StrCat("k = ", k));
    MemoryVfs vfs;
    FakeClock clock;
    StoreScript script;
    vfs.FailAt(k, GetParam(), true);
    auto store = Open(vfs, clock);
    if (store.ok()) {
      script.Run(**store, false);
      store->reset();
    } else {
      ExpectRetryable(store.status());
    }
    for (const absl::Status& status : script.failures()) ExpectRetryable(status);
    vfs.Heal();
    store = Open(vfs, clock);
    ASSERT_TRUE(store.ok()) << store.status();
    script.ExpectKept(**store);
    store->reset();
    ExpectIntact(vfs);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, SqliteFaults, ::testing::Values(Fault::kIoError, Fault::kDiskFull),
                         [](const auto& info) {
                           return info.param == Fault::kIoError ? "IoError" : "DiskFull";
                         });

TEST(SqlitePowerLoss, WhatWasAcknowledgedIsThereHoweverTheRestWasTorn) {
  const int64_t operations = Operations();
  for (uint64_t seed = 0; seed < 2; ++seed) {
    for (int64_t k = 1; k <= operations; ++k) {
      SCOPED_TRACE(absl::StrCat("k = ", k, ", seed ", seed));
      MemoryVfs vfs;
      FakeClock clock;
      StoreScript script;
      vfs.FailAt(k, Fault::kIoError, true);  // from here on nothing reaches the disk
      auto store = Open(vfs, clock);
      if (store.ok()) script.Run(**store, false);
      store = absl::UnknownError("closed");
      vfs.LosePower(1000 * seed + static_cast<uint64_t>(k));
      vfs.Heal();
      store = Open(vfs, clock);
      ASSERT_TRUE(store.ok()) << store.status();
      script.ExpectKept(**store);
      store->reset();
      ExpectIntact(vfs);
    }
  }
}

// The power goes while an earlier loss is being recovered from.
TEST(SqlitePowerLoss, RecoveryCanBeCutOffToo) {
  const int64_t operations = Operations();
  for (int64_t k = 3; k <= operations; k += 17) {
    for (int64_t again = 1; again <= 8; ++again) {
      SCOPED_TRACE(absl::StrCat("k = ", k, ", again ", again));
      MemoryVfs vfs;
      FakeClock clock;
      StoreScript script;
      vfs.FailAt(k, Fault::kIoError, true);
      auto store = Open(vfs, clock);
      if (store.ok()) script.Run(**store, false);
      store = absl::UnknownError("closed");
      vfs.LosePower(static_cast<uint64_t>(k));
      vfs.FailAt(again, Fault::kIoError, true);
      store = Open(vfs, clock);
      store = absl::UnknownError("closed");
      vfs.LosePower(static_cast<uint64_t>(again));
      vfs.Heal();
      store = Open(vfs, clock);
      ASSERT_TRUE(store.ok()) << store.status();
      script.ExpectKept(**store);
      store->reset();
      ExpectIntact(vfs);
    }
  }
}

}  // namespace
}  // namespace headcount::store
