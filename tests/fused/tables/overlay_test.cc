// The write-behind tables: what operations see before, during and after the commit of changes.
#include <gtest/gtest.h>

#include <fstream>

#include "fused/cache/block_numbers.h"
#include "fused/tables/metadata.h"
#include "oramcore/db/sealed_disk.h"
#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

class OverlayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = (folder.path() / "vault.db").string();
    auto opened = Database::open(path, Database::Mode::create);
    ASSERT_TRUE(opened);
    writer = std::move(*opened);
    ASSERT_TRUE(metadata.open(path));
    ASSERT_TRUE(metadata.is_new());
    commit(true);
    ASSERT_TRUE(metadata.open_tables());
    ASSERT_FALSE(metadata.is_new());
  }

  void commit(bool succeeds) {
    const auto apply = metadata.begin_commit();
    ASSERT_TRUE(writer.begin());
    ASSERT_TRUE(apply(writer));
    if (succeeds)
      ASSERT_TRUE(writer.commit("test"));
    else
      writer.rollback();
    metadata.end_commit(succeeds);
  }

  std::string names(Ino parent) {
    std::string all;
    EXPECT_TRUE(metadata.dentries.scan({parent, {}}, [&](const auto& key, const auto& row) {
      all += key.name + std::to_string(row.ino) + " ";
      return true;
    }));
    return all;
  }

  std::int64_t stored(const std::string& table) {
    auto count = metadata.number("SELECT COUNT(*) FROM " + table);
    EXPECT_TRUE(count);
    return count ? *count : -1;
  }

  TemporaryDirectory folder;
  Database writer;
  Metadata metadata;
};

TEST_F(OverlayTest, ChangesAreSeenBeforeWhileAndAfterTheirCommit) {
  const auto seen = [&] {
    const auto row = metadata.extents.find({7, 3});
    return row && *row && (*row)->block == 40 && (*row)->valid == 100;
  };
  EXPECT_FALSE(seen());
  metadata.extents.put({7, 3}, {40, 100});
  EXPECT_TRUE(seen());
  const auto apply = metadata.begin_commit();
  EXPECT_EQ(metadata.uncommitted(), 1u) << "not yet";
  EXPECT_TRUE(seen());
  ASSERT_TRUE(writer.begin());
  ASSERT_TRUE(apply(writer));
  ASSERT_TRUE(writer.commit("test"));
  EXPECT_TRUE(seen());
  metadata.end_commit(true);
  EXPECT_EQ(metadata.uncommitted(), 0u);
  EXPECT_TRUE(seen());
  EXPECT_EQ(stored("extents"), 1);
}

TEST_F(OverlayTest, TombstonesHideRows) {
  metadata.extents.put({7, 3}, {40, 100});
  commit(true);
  metadata.extents.erase({7, 3});
  EXPECT_EQ(*metadata.extents.find({7, 3}), std::nullopt);
  EXPECT_EQ(stored("extents"), 1);
  commit(true);
  EXPECT_EQ(*metadata.extents.find({7, 3}), std::nullopt);
  EXPECT_EQ(stored("extents"), 0);
}

TEST_F(OverlayTest, ScanMergesAllThreeLayersInOrder) {
  for (const char* name : {"a", "c", "e", "g"}) metadata.dentries.put({1, name}, {1, 0});
  metadata.dentries.put({2, "other"}, {9, 0});
  commit(true);
  metadata.dentries.put({1, "b"}, {2, 0});
  metadata.dentries.put({1, "c"}, {2, 0});
  metadata.dentries.erase({1, "e"});
  const auto apply = metadata.begin_commit();
  metadata.dentries.put({1, "c"}, {3, 0});
  metadata.dentries.erase({1, "b"});
  metadata.dentries.put({1, "e"}, {3, 0});
  metadata.dentries.put({1, "d"}, {3, 0});
  metadata.dentries.erase({1, "g"});
  EXPECT_EQ(names(1), "a1 c3 d3 e3 ");
  ASSERT_TRUE(writer.begin());
  ASSERT_TRUE(apply(writer));
  ASSERT_TRUE(writer.commit("test"));
  metadata.end_commit(true);
  EXPECT_EQ(names(1), "a1 c3 d3 e3 ");
  commit(true);
  EXPECT_EQ(names(1), "a1 c3 d3 e3 ");
  EXPECT_EQ(names(2), "other9 ");
  EXPECT_EQ(names(3), "");
}

TEST_F(OverlayTest, NamesAreOrderedAsBytesInMemoryAndInRows) {
  for (const char* name : {"\xff", "z", "\x01", "a\x80"}) metadata.dentries.put({1, name}, {1, 0});
  const std::string order = names(1);
  commit(true);
  EXPECT_EQ(names(1), order);
}

TEST_F(OverlayTest, AFailedCommitLosesNothingAndNewerChangesWin) {
  metadata.dentries.put({1, "kept"}, {1, 0});
  metadata.dentries.put({1, "changed"}, {1, 0});
  metadata.dentries.put({1, "removed"}, {1, 0});
  const auto apply = metadata.begin_commit();
  metadata.dentries.put({1, "changed"}, {2, 0});
  metadata.dentries.erase({1, "removed"});
  ASSERT_TRUE(writer.begin());
  ASSERT_TRUE(apply(writer));
  writer.rollback();
  metadata.end_commit(false);
  EXPECT_EQ(names(1), "changed2 kept1 ");
  EXPECT_EQ(stored("dentries"), 0);
  commit(true);
  EXPECT_EQ(stored("dentries"), 2);
  EXPECT_EQ(names(1), "changed2 kept1 ");
}

TEST_F(OverlayTest, InodesKeepEveryField) {
  InodeRow row;
  row.mode = S_IFLNK | 0777;
  row.uid = 4'000'000'000u;
  row.gid = 7;
  row.nlink = 3;
  row.rdev = ~std::uint64_t{0};
  row.size = 1ull << 60;
  row.blocks = 12;
  row.atime = -5;
  row.mtime = 1'700'000'000'123'456'789;
  row.ctime = 3;
  row.parent = 99;
  row.target = std::string("a\0b", 3);
  metadata.inodes.put(5, row);
  commit(true);
  const auto found = metadata.inodes.find(5);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ(**found, row);
}

TEST_F(OverlayTest, ANewerFormatIsRefused) {
  ASSERT_TRUE(writer.execute("UPDATE fs_state SET value = 3 WHERE name = 'format'"));
  Metadata other;
  const Status opened = other.open(writer.path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unsupported);
  EXPECT_NE(opened.error().message.find("tables of files: its format 3 is newer than this program, "
                                        "which knows format 2"),
            std::string::npos)
      << opened.error().message;
}

class SealedTablesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto database = Database::open(path, Database::Mode::create, disk);
    ASSERT_TRUE(database && make_tables(*database));
    ASSERT_TRUE(
        database->execute(fmt::format("INSERT INTO fs_state VALUES ('format', {})", kFormat)));
    ASSERT_TRUE(database->fold_log());
    auto rows = database->prepare("SELECT name, rootpage FROM sqlite_master");
    ASSERT_TRUE(rows);
    while (*rows->step()) roots[rows->text(0)] = rows->integer(1);
  }
  /// Flips a bit on the first page of a table or index. The second time makes it whole.
  void flip(const std::string& name) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = (roots.at(name) - 1) * std::int64_t{kPageBytes} + 2000;
    const int byte = file.seekg(at).get();
    file.seekp(at).put(static_cast<char>(byte ^ 1));
  }

  TemporaryDirectory folder;
  SealedDisk disk{Seed{1}};
  const std::string path = (folder.path() / "vault.db").string();
  std::map<std::string, std::int64_t> roots;
};

// Names without the positions that were written in their transaction would lose data.
TEST_F(SealedTablesTest, ACommitThatMeetsADamagedPageLeavesNothing) {
  flip("xattrs");
  {
    auto writer = Database::open(path, Database::Mode::read_write, disk);
    Metadata metadata;
    ASSERT_TRUE(writer && metadata.open(path, disk));
    metadata.inodes.put(7, {});
    metadata.extents.put({7, 0}, {40, 100});
    metadata.xattrs.put({7, "user.note"}, {});
    const auto apply = metadata.begin_commit();
    const Status ended = writer->transact("test", [&]() -> Status {
      S3O_TRY(writer->execute("INSERT INTO fs_state VALUES ('position', 40)"));
      return apply(*writer);
    });
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Errc::damaged_vault);
    EXPECT_NE(ended.error().message.find("vault.db: page "), std::string::npos)
        << ended.error().message;
  }
  flip("xattrs");
  Metadata metadata;
  ASSERT_TRUE(metadata.open(path, disk));
  for (const char* table : {"fs_state WHERE name = 'position'", "inodes", "extents", "xattrs"}) {
    const auto rows = metadata.number(fmt::format("SELECT COUNT(*) FROM {}", table));
    ASSERT_TRUE(rows) << rows.error().message;
    EXPECT_EQ(*rows, 0) << table;
  }
}

TEST_F(SealedTablesTest, ADamagedIndexIsFoundBeforeACommitNeedsIt) {
  for (const char* index : {"orphans", "packed"}) {
    flip(index);
    {
      Metadata metadata;
      ASSERT_TRUE(metadata.open(path, disk));
      Status found = metadata.examine();
      if (const auto orphans = metadata.orphans(); found && !orphans) found = fail(orphans.error());
      ASSERT_FALSE(found) << index;
      EXPECT_EQ(found.error().code, Errc::damaged_vault);
    }
    flip(index);
    Metadata metadata;
    ASSERT_TRUE(metadata.open(path, disk));
    EXPECT_TRUE(metadata.examine() && metadata.orphans());
  }
}

TEST(BlockNumbersTest, AFreedNumberWaitsForItsCommit) {
  BlockNumbers numbers;
  numbers.reset({0, 1, 3});
  EXPECT_EQ(numbers.used(), 3u);
  EXPECT_EQ(numbers.take(), 2u);
  numbers.release(1);
  EXPECT_EQ(numbers.take(), 4u);
  numbers.begin_commit();
  numbers.release(0);
  EXPECT_EQ(numbers.take(), 5u);
  numbers.end_commit(false);
  EXPECT_EQ(numbers.take(), 6u);
  numbers.begin_commit();
  numbers.release(6);
  numbers.end_commit(true);
  EXPECT_EQ(numbers.take(), 0u);
  EXPECT_EQ(numbers.take(), 1u);
  EXPECT_EQ(numbers.take(), 7u);
}

}  // namespace
}  // namespace s3oram
