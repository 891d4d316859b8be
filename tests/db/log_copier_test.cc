// Tests that the log is copied into the database beside commits, readers and folding.
#include "oramcore/db/log_copier.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "oramcore/db/database_file.h"
#include "oramcore/db/sqlite.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kPlainPage = 4096;
constexpr std::uintmax_t kLongestLog = 6'000;  // more pages than the copier lets the log have

class LogCopierTest : public testing::Test {
 protected:
  void SetUp() override {
    auto database = Database::open(path_.string(), Database::Mode::create);
    ASSERT_GOOD(database);
    database_ = std::move(*database);
    ASSERT_GOOD(database_.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)"));
  }
  /// Changes this many pages in one commit, the same ones each time.
  void change(int pages) {
    ++changes_;
    ASSERT_GOOD(database_.execute(
        fmt::format("WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < {}) "
                    "INSERT OR REPLACE INTO t SELECT k, printf('%3000d', {}) FROM n",
                    pages, changes_)));
  }
  std::uintmax_t pages_of_log() const { return fs::file_size(log_of(path_)) / kPlainPage; }
  /// Counts rows of the last change in the file itself, without its log.
  std::int64_t copied() {
    const fs::path alone = directory_ / "alone.db";
    fs::copy_file(path_, alone, fs::copy_options::overwrite_existing);
    auto file = Database::open(alone.string(), Database::Mode::read_write);
    if (!file) return -1;
    auto row = file->prepare(
        fmt::format("SELECT count(*) FROM t WHERE v = printf('%3000d', {})", changes_));
    const auto there = row ? row->step() : fail(row.error());
    return there && *there ? row->integer(0) : -1;
  }

  TemporaryDirectory directory_;
  const fs::path path_ = directory_ / "test.db";
  Database database_;
  int changes_ = 0;
};

TEST_F(LogCopierTest, TheLogBeginsAnewWhileCommitsGoOn) {
  // The log grows while the other thread copies, which may take long on a busy machine.
  for (std::uintmax_t pages = 0; pages < 10 * kLongestLog; pages += 20)
    ASSERT_NO_FATAL_FAILURE(change(20));
  EXPECT_LT(pages_of_log(), 5 * kLongestLog);
  database_ = {};
  EXPECT_EQ(copied(), 20);
}

TEST_F(LogCopierTest, ALongLogIsCopiedWithoutAnotherCommit) {
  ASSERT_NO_FATAL_FAILURE(change(200));
  EXPECT_NE(copied(), 200) << "a short log stays";
  ASSERT_NO_FATAL_FAILURE(change(1'200));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (copied() != 1'200 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(copied(), 1'200);
}

TEST_F(LogCopierTest, TheLogCanBeFoldedAtAnyTime) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_NO_FATAL_FAILURE(change(1'200));
    ASSERT_GOOD(database_.fold_log());
    EXPECT_EQ(copied(), 1'200);
    EXPECT_EQ(pages_of_log(), 0u);
  }
}

TEST_F(LogCopierTest, WhatIsBeingReadStaysAsItWas) {
  ASSERT_NO_FATAL_FAILURE(change(20));
  auto reader = Database::open(path_.string(), Database::Mode::read_only);
  ASSERT_GOOD(reader);
  auto rows = reader->prepare("SELECT v = printf('%3000d', 1) FROM t ORDER BY k");
  ASSERT_GOOD(rows);
  ASSERT_TRUE(rows->step().value_or(false));
  for (std::uintmax_t pages = 0; pages < 2 * kLongestLog; pages += 20)
    ASSERT_NO_FATAL_FAILURE(change(20));
  for (int row = 1; row < 20; ++row) {
    EXPECT_EQ(rows->integer(0), 1);
    ASSERT_TRUE(rows->step().value_or(false));
  }
  rows->reset();
  const std::uintmax_t longest = pages_of_log();
  EXPECT_GT(longest, kLongestLog);
  for (std::uintmax_t pages = 0; pages < kLongestLog; pages += 20)
    ASSERT_NO_FATAL_FAILURE(change(20));
  EXPECT_LE(pages_of_log(), longest + 100) << "it goes on growing with nobody reading";
}

}  // namespace
}  // namespace s3oram
