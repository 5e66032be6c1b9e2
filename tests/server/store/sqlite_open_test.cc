// Opening a database file: whose it is, which version it has, whether it is whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "server/store/migrations.h"
#include "server/store/sqlite_db.h"
#include "server/store/sqlite_job_store.h"
#include "tests/common/base/temp_folder.h"
#include "tests/server/store/memory_vfs.h"
#include "tests/server/store/store_script.h"

namespace headcount::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Runs SQL on the file behind the store's back.
void Tamper(const std::string& path, const std::string& sql) {
  auto db = Database::Open(path);
  ASSERT_TRUE(db.ok()) << db.status();
  ASSERT_EQ((*db)->Script(sql), absl::OkStatus());
}

int64_t ReadFrom(const std::string& path, const std::string& sql) {
  auto db = Database::Open(path);
  EXPECT_TRUE(db.ok()) << db.status();
  auto value = (*db)->ReadInt(sql);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.value_or(-1);
}

class SqliteOpen : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<JobStore>> Open() { return SqliteJobStore::Open(path_, clock_); }

  TempFolder folder_;
  std::string path_ = folder_.File("jobs.db");
  FakeClock clock_;
};

TEST_F(SqliteOpen, ANewFileIsMarkedAsOurs) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(ReadFrom(path_, "PRAGMA application_id"), kApplicationId);
  EXPECT_EQ(ReadFrom(path_, "PRAGMA user_version"), Migrations().back().version);
  EXPECT_EQ(ReadFrom(path_, "SELECT count(*) FROM sqlite_schema WHERE name = 'jobs'"), 1);
  auto mode = Database::Open(path_);
  auto query = (*mode)->Query("PRAGMA journal_mode");
  ASSERT_TRUE(*query->Step());
  EXPECT_EQ(query->Text(0), "wal");
}

TEST_F(SqliteOpen, ASecondServerOnTheFileIsRefused) {
  auto first = Open();
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = Open();
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(path_), HasSubstr("another headcountd")));
  first->reset();
  EXPECT_TRUE(Open().ok());
}

TEST_F(SqliteOpen, ANewerSchemaIsRefusedWithBothNumbersAndNotTouched) {
  ASSERT_TRUE(Open().ok());
  const int newest = Migrations().back().version;
  Tamper(path_, absl::StrCat("PRAGMA user_version=", newest + 6));
  const std::string before = *ReadFile(path_);
  auto store = Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(store.status())) << store.status();
  EXPECT_THAT(std::string(store.status().message()),
              AllOf(HasSubstr(absl::StrCat("version ", newest + 6)),
                    HasSubstr(absl::StrCat("up to ", newest))));
  EXPECT_EQ(*ReadFile(path_), before);
}

TEST_F(SqliteOpen, AnotherProgramsDatabaseIsRefusedAndNotTouched) {
  Tamper(path_, "CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')");
  const std::string before = *ReadFile(path_);
  auto store = Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(store.status())) << store.status();
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("not a headcount database"));
  EXPECT_EQ(*ReadFile(path_), before);
}

TEST_F(SqliteOpen, WhatIsNotADatabaseIsDataLoss) {
  ASSERT_EQ(WriteFileDurably(path_, std::string(5000, 'x')), absl::OkStatus());
  EXPECT_TRUE(absl::IsDataLoss(Open().status())) << Open().status();
}

TEST_F(SqliteOpen, AFolderThatIsNotThereIsNamed) {
  auto store = SqliteJobStore::Open(folder_.File("none/jobs.db"), clock_);
  EXPECT_TRUE(absl::IsFailedPrecondition(store.status())) << store.status();
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("none/jobs.db"));
}

constexpr Migration kFirst[] = {{1, "CREATE TABLE a (x INTEGER) STRICT"}};
constexpr Migration kSecond[] = {kFirst[0],
                                 {2, "ALTER TABLE a ADD COLUMN y TEXT NOT NULL DEFAULT 'new'"},
                                 {3, "CREATE TABLE b (z INTEGER) STRICT"}};
constexpr Migration kBroken[] = {
    kFirst[0], {2, "CREATE TABLE b (z INTEGER) STRICT"}, {3, "INSERT INTO missing VALUES (1)"}};

TEST_F(SqliteOpen, AnOlderSchemaIsCopiedAsideAndMigrated) {
  {
    auto db = *Database::Open(path_);
    ASSERT_EQ(OpenSchema(*db, kFirst), absl::OkStatus());
    ASSERT_EQ(db->Script("INSERT INTO a VALUES (7)"), absl::OkStatus());
  }
  {
    auto db = *Database::Open(path_);
    ASSERT_EQ(OpenSchema(*db, kSecond), absl::OkStatus());
    EXPECT_EQ(*db->ReadInt("PRAGMA user_version"), 3);
    EXPECT_EQ(*db->ReadInt("SELECT x FROM a WHERE y = 'new'"), 7);
    EXPECT_EQ(*db->ReadInt("SELECT count(*) FROM b"), 0);
  }
  const std::string copy = path_ + ".v1.bak";
  EXPECT_EQ(ReadFrom(copy, "PRAGMA user_version"), 1);
  EXPECT_EQ(ReadFrom(copy, "SELECT x FROM a"), 7);
  std::filesystem::remove(copy);
  {
    auto db = *Database::Open(path_);
    ASSERT_EQ(OpenSchema(*db, kSecond), absl::OkStatus());
  }
  EXPECT_FALSE(std::filesystem::exists(copy));  // nothing to do, nothing copied
}

TEST_F(SqliteOpen, AMigrationThatFailsLeavesTheOldSchema) {
  {
    auto db = *Database::Open(path_);
    ASSERT_EQ(OpenSchema(*db, kFirst), absl::OkStatus());
  }
  {
    auto db = *Database::Open(path_);
    EXPECT_FALSE(OpenSchema(*db, kBroken).ok());
  }
  EXPECT_EQ(ReadFrom(path_, "PRAGMA user_version"), 1);
  EXPECT_EQ(ReadFrom(path_, "SELECT count(*) FROM sqlite_schema WHERE name = 'b'"), 0);
  auto db = *Database::Open(path_);
  EXPECT_EQ(OpenSchema(*db, kSecond), absl::OkStatus());
}

TEST(SqliteMigrations, NumbersAreOneTwoThree) {
  int expected = 1;
  for (const Migration& migration : Migrations()) EXPECT_EQ(migration.version, expected++);
}

// Any answer to damage is right but a wrong one: refuse with DATA_LOSS (or, where the damage looks
// like another program's file or a newer version, FAILED_PRECONDITION), or work.
class SqliteDamage : public ::testing::Test {
 protected:
  SqliteDamage() {
    {
      auto store = SqliteJobStore::Open("jobs.db", clock_, {.vfs = vfs_.name()});
      EXPECT_TRUE(store.ok()) << store.status();
      StoreScript().Run(**store, false);
    }
    whole_ = vfs_.Contents("jobs.db");
    EXPECT_FALSE(vfs_.Exists("jobs.db-wal"));
  }

  static bool Told(const absl::Status& status) {
    return absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) ||
           absl::IsNotFound(status);
  }

  enum class Answer { kRefused, kToldOnReading, kNothing };

  // Opens the damaged file and reads all of it.
  Answer Try(const std::string& bytes) {
    vfs_.Contents("jobs.db") = bytes;
    vfs_.Remove("jobs.db-wal");
    vfs_.Remove("jobs.db-journal");
    auto store = SqliteJobStore::Open("jobs.db", clock_, {.vfs = vfs_.name()});
    if (!store.ok()) {
      EXPECT_TRUE(Told(store.status())) << store.status();
      return Answer::kRefused;
    }
    Answer answer = Answer::kNothing;
    auto read = [&](const absl::Status& status) {
      if (status.ok()) return;
      EXPECT_TRUE(Told(status)) << status;
      answer = Answer::kToldOnReading;
    };
    read((*store)->View().status());
    read((*store)->GetTotals().status());
    read((*store)->LiveDigests().status());
    auto page = (*store)->ListJobs({"default"}, "", 100);
    read(page.status());
    if (!page.ok()) return answer;
    for (const v1::Job& job : page->jobs) {
      read((*store)->ReadEvents(job.name(), 0, 100).status());
      read((*store)->ListStages(job.name()).status());
      read((*store)->ListChunks(job.name(), Stage::kScore, 0, 100).status());
    }
    return answer;
  }

  MemoryVfs vfs_;
  FakeClock clock_;
  std::string whole_;
};

TEST_F(SqliteDamage, TheWholeFileOpens) { EXPECT_EQ(Try(whole_), Answer::kNothing); }

TEST_F(SqliteDamage, EveryByteOfTheHeaderCanFlip) {
  for (size_t at = 0; at < 100; ++at) {
    for (int mask : {0x01, 0xff}) {
      SCOPED_TRACE(absl::StrCat("byte ", at, " ^ ", mask));
      std::string bytes = whole_;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      (void)Try(bytes);
    }
  }
}

TEST_F(SqliteDamage, BytesFlipAnywhere) {
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(absl::StrCat("round ", i));
    std::string bytes = whole_;
    for (int flips = 1 + static_cast<int>(random() % 16); flips > 0; --flips)
      bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    refused += Try(bytes) == Answer::kRefused;
  }
  EXPECT_GT(refused, 20);  // structure is checked, not just read when it comes to it
}

TEST_F(SqliteDamage, PagesAreLostOrOverwritten) {
  const size_t page = 4096;
  ASSERT_EQ(whole_.size() % page, 0u);
  // Bytes 36 to 39 of the header: pages that nothing uses, whose loss is none.
  const int unused = static_cast<uint8_t>(whole_[38]) * 256 + static_cast<uint8_t>(whole_[39]);
  int harmless = 0;
  for (size_t at = 0; at < whole_.size(); at += page) {
    SCOPED_TRACE(absl::StrCat("page at ", at));
    std::string zeroed = whole_;
    zeroed.replace(at, page, page, '\0');
    harmless += Try(zeroed) == Answer::kNothing;
    if (at > 0) {
      EXPECT_EQ(Try(whole_.substr(0, at)), Answer::kRefused);
      (void)Try(whole_.substr(0, at + 100));
    }
  }
  EXPECT_LE(harmless, unused);
}

}  // namespace
}  // namespace headcount::store
