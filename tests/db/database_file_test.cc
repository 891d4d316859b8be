// Tests that a database is replaced and removed together with its log.
#include "oramcore/db/database_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "oramcore/db/sqlite.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

class DatabaseFileTest : public testing::Test {
 protected:
  static Result<Database> make(const fs::path& path) {
    auto database = Database::open(path.string(), Database::Mode::create);
    if (!database) return database;
    if (const Status made = database->execute("CREATE TABLE t (v INTEGER)"); !made)
      return fail(made.error());
    return database;
  }
  static std::int64_t sum(const fs::path& path) {
    auto database = Database::open(path.string(), Database::Mode::read_write);
    if (!database) return -1;
    auto row = database->prepare("SELECT coalesce(sum(v), 0) FROM t");
    const auto there = row ? row->step() : fail(row.error());
    return there && *there ? row->integer(0) : -1;
  }
  /// A file as a crash leaves it: the row 7 is only in the log.
  void make_with_log(const fs::path& path) {
    const fs::path open = directory_ / "open.db";
    auto database = make(open);
    ASSERT_GOOD(database);
    ASSERT_GOOD(database->execute("PRAGMA wal_autocheckpoint = 0"));
    ASSERT_GOOD(database->execute("PRAGMA wal_checkpoint(TRUNCATE)"));
    ASSERT_GOOD(database->execute("INSERT INTO t VALUES (7)"));
    fs::copy_file(open, path);
    fs::copy_file(log_of(open), log_of(path));
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory_ / "vault"))
      found.insert(entry.path().filename());
    return found;
  }

  void SetUp() override { fs::create_directory(directory_ / "vault"); }

  TemporaryDirectory directory_;
  const fs::path path_ = directory_ / "vault/vault.db", made_ = directory_ / "vault/made.db";
};

TEST_F(DatabaseFileTest, TheLogOfTheFormerOneIsNotTakenForThatOfTheNewOne) {
  ASSERT_NO_FATAL_FAILURE(make_with_log(path_));
  {
    auto database = make(made_);
    ASSERT_GOOD(database);
    ASSERT_GOOD(database->execute("INSERT INTO t VALUES (3)"));
  }
  ASSERT_GOOD(replace_database(made_, path_));
  EXPECT_EQ(names(), std::set<std::string>{"vault.db"});
  EXPECT_EQ(sum(path_), 3);
}

TEST_F(DatabaseFileTest, TheNewOneComesWithWhatIsInItsLog) {
  ASSERT_NO_FATAL_FAILURE(make_with_log(made_));
  ASSERT_GOOD(replace_database(made_, path_));
  EXPECT_EQ(names(), std::set<std::string>{"vault.db"});
  EXPECT_EQ(sum(path_), 7);
}

TEST_F(DatabaseFileTest, WithoutANewOneTheFormerOneStays) {
  ASSERT_NO_FATAL_FAILURE(make_with_log(path_));
  EXPECT_FALSE(replace_database(made_, path_));
  EXPECT_EQ(sum(path_), 7);
}

TEST_F(DatabaseFileTest, IsRemovedWithItsLog) {
  ASSERT_NO_FATAL_FAILURE(make_with_log(path_));
  ASSERT_GOOD(remove_database(path_));
  EXPECT_EQ(names(), std::set<std::string>{});
  ASSERT_GOOD(remove_database(path_));
}

}  // namespace
}  // namespace s3oram
