// Tests that damaged vaults can be mounted: a bad row affects only its file, and a read-only mount
// changes nothing.
#include <sys/xattr.h>

#include <future>
#include <set>

#include "tests/fused/tables/sample_vault.h"
#include "tests/fused/whole_listing.h"

namespace s3oram {
namespace {

class DamageTest : public testing::Test {
 protected:
  void TearDown() override {
    if (fs) unmount();
  }
  /// Restores everything to its state before the damage.
  void make_whole() {
    for (const char* suffix : {"", "-wal", "-shm"})
      std::filesystem::remove(vault.database().string() + suffix);
    std::filesystem::copy_file(sample_vault().database(), vault.database());
  }
  void mount() {
    device = std::make_unique<MemoryDevice>(vault.database().string(), kTestBlock);
    auto mounted = FileSystem::mount(*device, vault.database().string(), options);
    ASSERT_TRUE(mounted) << mounted.error().message;
    fs = std::move(*mounted);
  }
  void unmount() {
    EXPECT_TRUE(fs->unmount());
    EXPECT_EQ(device->violations(), 0u);
    device.reset();
    fs.reset();
  }
  Errc refused() {
    MemoryDevice fresh(vault.database().string(), kTestBlock);
    const auto mounted = FileSystem::mount(fresh, vault.database().string(), options);
    if (!mounted) {  // the device then commits and closes after the file system is gone
      std::promise<Status> committed;
      fresh.commit([&](Status outcome) { committed.set_value(std::move(outcome)); });
      EXPECT_TRUE(committed.get_future().get());
    }
    return mounted ? Errc::ok : mounted.error().code;
  }
  Ino find(const std::string& name, Ino parent = kRootIno) {
    const auto found = fs->lookup(parent, name);
    return found ? found->st_ino : 0;
  }
  int error_of(const std::string& name) {
    const auto found = fs->lookup(kRootIno, name);
    return found ? 0 : found.error();
  }
  Posix<std::string> read(Ino ino, std::uint64_t offset = 0, std::size_t size = 10'000) {
    Bytes bytes(size);
    const auto got = fs->read(ino, offset, bytes);
    if (!got) return posix_error(got.error());
    return std::string(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(*got));
  }
  void expect_good(const std::string& name) {
    const auto content = read(find(name.substr(1)));
    ASSERT_TRUE(content) << name;
    EXPECT_EQ(*content, SampleVault::content(name)) << name;
  }
  std::uint64_t count(const std::string& sql) {
    auto database = vault.open();
    auto row = database.prepare(sql);
    EXPECT_TRUE(row && *row->step());
    return static_cast<std::uint64_t>(row->integer(0));
  }

  DamagedVault vault;
  FileSystemOptions options{.cache = {},
                            .commit_every = std::chrono::hours(1),
                            .update_atime = true,
                            .read_only = false,
                            .root_uid = 0,
                            .root_gid = 0,
                            .references = {}};
  std::unique_ptr<MemoryDevice> device;
  std::unique_ptr<FileSystem> fs;
};

TEST_F(DamageTest, ALostBlockCostsItsBytes) {
  vault.damage(
      "DELETE FROM memory_blocks WHERE block = (SELECT block FROM extents WHERE ino = {a} AND idx "
      "= 1)");
  mount();
  const Ino a = find("a");
  EXPECT_EQ(read(a).error(), EIO);
  EXPECT_EQ(*read(a, 0, kTestBlock), SampleVault::content("/a").substr(0, kTestBlock));
  EXPECT_EQ(read(a, kTestBlock, 1).error(), EIO);
  EXPECT_EQ(*read(a, 2 * kTestBlock), SampleVault::content("/a").substr(2 * kTestBlock));
  expect_good("/b");
  // A part of the file cannot be written. The whole file can, and is there after the next mount.
  EXPECT_EQ(fs->write(a, kTestBlock, as_bytes("x"), false).error(), EIO);
  EXPECT_TRUE(fs->write(a, kTestBlock, as_bytes(std::string(kTestBlock, 'n')), false));
  const std::string mended = *read(a);
  EXPECT_EQ(mended.substr(kTestBlock, kTestBlock), std::string(kTestBlock, 'n'));
  unmount();
  mount();
  EXPECT_EQ(*read(find("a")), mended);
  EXPECT_EQ(fs->getattr(find("a"))->st_blocks, 2 * kTestBlock / 512 + 4) << "and its tail";
}

TEST_F(DamageTest, PlacesThatOverlapCostTheirTwoFilesAlone) {
  vault.damage(
      "UPDATE extents SET block = (SELECT block FROM extents WHERE ino = {a} AND idx = 2) + 1 "
      "WHERE "
      "ino = {b} AND idx = 2");
  mount();
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(read(find(name), 2 * kTestBlock, 1).error(), EIO);
    EXPECT_TRUE(read(find(name), 0, 2 * kTestBlock));
  }
  EXPECT_TRUE(*read(find("sparse"), 100 * kTestBlock) == SampleVault::content("/sparse"));
  EXPECT_TRUE(fs->unlink(kRootIno, "a"));
  unmount();
  mount();
  EXPECT_TRUE(*read(find("sparse"), 100 * kTestBlock) == SampleVault::content("/sparse"));
}

// The kernel would keep the old name if the operation failed after the name had gone.
TEST_F(DamageTest, ANameGoesAlthoughItsFileCannotBeFreed) {
  vault.change("UPDATE xattrs SET value = x'00' WHERE ino = {a}");
  mount();
  EXPECT_TRUE(fs->rename(kRootIno, "b", kRootIno, "a", 0));
  EXPECT_EQ(error_of("b"), ENOENT);
  EXPECT_EQ(*read(find("a")), SampleVault::content("/b"));
}

TEST_F(DamageTest, ReadAheadIntoALostBlockIsNoError) {
  vault.damage(
      "DELETE FROM memory_blocks WHERE block = (SELECT block FROM extents WHERE ino = {a} AND idx "
      "= 2)");
  mount();
  const Ino a = find("a");
  ASSERT_TRUE(read(a, 0, 100));
  ASSERT_TRUE(read(a, 100, kTestBlock));
  EXPECT_TRUE(read(a, kTestBlock, kTestBlock));
}

TEST_F(DamageTest, ABlockOfTwoFilesIsReadByNone) {
  vault.damage(
      "UPDATE extents SET block = (SELECT block FROM extents WHERE ino = {a} AND idx = 0) "
      "WHERE ino = {b} AND idx = 0");
  mount();
  EXPECT_EQ(read(find("a"), 0, 10).error(), EIO);
  EXPECT_EQ(read(find("b"), 0, 10).error(), EIO);
  EXPECT_TRUE(read(find("a"), kTestBlock, 10));
  // Removing one file leaves the block to the other.
  ASSERT_TRUE(fs->unlink(kRootIno, "b"));
  ASSERT_TRUE(fs->unlink(find("dir"), "b2"));
  fs->forget(sample_vault().ino("/b"), 100);
  unmount();
  mount();
  expect_good("/a");
}

TEST_F(DamageTest, FreedNumbersOfLostBlocksAreNotTaken) {
  vault.damage(
      "DELETE FROM memory_blocks WHERE block = (SELECT block FROM extents WHERE ino = {a} AND idx "
      "= 1)");
  mount();
  const auto made = fs->make({}, kRootIno, "new", {S_IFREG | 0644, 0, {}});
  ASSERT_TRUE(made);
  const std::string text = pattern(5 * kTestBlock);
  ASSERT_TRUE(fs->write(made->st_ino, 0, as_bytes(text), false));
  ASSERT_TRUE(fs->sync(made->st_ino));
  unmount();
  EXPECT_EQ(count("SELECT COUNT(*) - COUNT(DISTINCT block) FROM extents"), 0u);
  mount();
  EXPECT_EQ(*read(find("new"), 0, text.size()), text);
  EXPECT_EQ(read(find("a"), kTestBlock, 1).error(), EIO);
}

TEST_F(DamageTest, ABadInodeCostsItsFile) {
  vault.damage("UPDATE inodes SET nlink = 0 WHERE ino = {a}");
  vault.damage("UPDATE inodes SET mode = 7 WHERE ino = {empty}");
  vault.damage("DELETE FROM inodes WHERE ino = {fifo}");
  vault.damage("UPDATE inodes SET mode = 0, nlink = 0 WHERE ino = 1");
  mount();
  for (const char* name : {"a", "empty", "fifo"}) EXPECT_EQ(error_of(name), EIO) << name;
  expect_good("/b");
  // A new file gets nothing that belonged to a lost one.
  const auto made = fs->make({}, kRootIno, "new", {S_IFREG | 0644, 0, {}});
  ASSERT_TRUE(made);
  EXPECT_GT(made->st_ino, sample_vault().ino("/sparse"));
  unmount();
  EXPECT_EQ(
      count("SELECT COUNT(*) FROM extents WHERE ino = " + std::to_string(sample_vault().ino("/a"))),
      3u);
}

// Every changed value is possible by itself.
TEST_F(DamageTest, ARowThatHasChangedByItselfCostsItsFile) {
  const std::pair<const char*, std::set<std::string>> changes[] = {
      {"UPDATE inodes SET size = size - 1 WHERE ino = {a}", {"/a"}},
      {"UPDATE inodes SET mode = mode | 2 WHERE ino = {b}", {"/b"}},
      {"UPDATE inodes SET ino = 1000 WHERE ino = {b}", {"/b"}},
      {"UPDATE dentries SET ino = {b} WHERE ino = {a}", {"/a"}},
      {"UPDATE dentries SET name = x'62' WHERE ino = {b} AND parent = 1; UPDATE dentries SET name "
       "= "
       "x'63' WHERE ino = {a}",
       {"/a"}},
      {"UPDATE extents SET valid = valid - 1 WHERE ino = {a} AND idx = 1", {"/a"}},
      {"UPDATE extents SET block = (SELECT block FROM extents WHERE ino = {b} AND idx = 1) WHERE "
       "ino = {a} AND idx = 1",
       {"/a"}},
      {"UPDATE extents SET idx = 7 WHERE ino = {a} AND idx = 1", {"/a"}},
      {"UPDATE extents SET ino = 1000 WHERE ino = {a} AND idx = 1", {"/a"}},
  };
  for (const auto& [change, cost] : changes) {
    make_whole();
    vault.change(change);
    const auto blocks = count("SELECT COUNT(*) FROM memory_blocks");
    mount();
    for (const char* name : {"/a", "/b", "/sparse"}) {
      const std::uint64_t offset = std::string(name) == "/sparse" ? 100 * kTestBlock : 0;
      const auto content = read(find(name + 1), offset);
      EXPECT_EQ(content.has_value(), !cost.contains(name)) << name << ": " << change;
      if (content) {
        EXPECT_TRUE(*content == SampleVault::content(name)) << name << ": " << change;
      }
    }
    unmount();
    EXPECT_EQ(count("SELECT COUNT(*) FROM memory_blocks"), blocks) << "freed: " << change;
  }
}

// The amount of data in such a row must not be believed either.
TEST_F(DamageTest, NothingIsMadeOfAChangedExtent) {
  AttributeChange shorter;
  shorter.size = kTestBlock + 5;
  for (const char* valid : {"0", "10", "valid - 1"}) {
    SCOPED_TRACE(valid);
    make_whole();
    vault.change(fmt::format("UPDATE extents SET valid = {} WHERE ino = {{a}} AND idx = 1", valid));
    mount();
    const Ino a = find("a");
    EXPECT_EQ(fs->write(a, kTestBlock, as_bytes(std::string(100, 'n')), false).error(), EIO);
    EXPECT_EQ(fs->fallocate(a, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kTestBlock, 100).error(),
              EIO);
    EXPECT_EQ(fs->setattr(a, shorter).error(), EIO);
    EXPECT_EQ(*fs->seek(a, kTestBlock, SEEK_DATA), kTestBlock);
    EXPECT_EQ(read(a, kTestBlock, 1).error(), EIO);
    EXPECT_TRUE(fs->setattr(find("b"), shorter));
    unmount();
    EXPECT_EQ(count(DamagedVault::filled("SELECT COUNT(*) FROM extents WHERE ino = {a} AND block "
                                         "IN (SELECT block FROM memory_blocks)")),
              2u)
        << "as it was";
    mount();
    ASSERT_TRUE(fs->write(find("a"), kTestBlock, as_bytes(std::string(kTestBlock, 'n')), false));
    unmount();
    mount();
    EXPECT_EQ(read(find("a"), kTestBlock, kTestBlock), std::string(kTestBlock, 'n'));
    EXPECT_TRUE(fs->unlink(kRootIno, "a"));
    unmount();
  }
}

// A row with a changed key is in the place of another row. Even when it is used up, the loss must
// show.
TEST_F(DamageTest, AnExtentThatIsMissingStaysSo) {
  const auto is_lost = [&] {
    mount();
    EXPECT_EQ(read(find("a"), kTestBlock, 1).error(), EIO);
    EXPECT_EQ(fs->seek(find("a"), kTestBlock, SEEK_DATA).error(), EIO);
    unmount();
  };
  AttributeChange size;
  const auto block = [&] {
    return count(DamagedVault::filled("SELECT block FROM extents WHERE ino = {a} AND idx = 1"));
  };
  const auto kept = [&](std::uint64_t number) {
    return count(fmt::format("SELECT COUNT(*) FROM memory_blocks WHERE block = {}", number)) == 1;
  };
  for (const bool overwrites : {true, false}) {
    make_whole();
    const std::uint64_t lost = block();
    vault.change("UPDATE extents SET idx = 7 WHERE ino = {a} AND idx = 1");
    mount();
    if (overwrites) {
      ASSERT_TRUE(
          fs->write(find("a"), 7 * kTestBlock, as_bytes(std::string(kTestBlock, 'n')), false));
    } else {
      size.size = kTestBlock + 100;
      EXPECT_EQ(fs->setattr(find("a"), size).error(), EIO);
      size.size = 2 * kTestBlock + 100;
      EXPECT_TRUE(fs->setattr(find("a"), size));
    }
    unmount();
    is_lost();
    EXPECT_TRUE(kept(lost));
    is_lost();
  }
  make_whole();
  vault.change("UPDATE extents SET idx = 7 WHERE ino = {a} AND idx = 1");
  mount();
  const Ino a = find("a");
  EXPECT_EQ(read(a, kTestBlock, 1).error(), EIO);
  size.size = 0;
  ASSERT_TRUE(fs->setattr(a, size));
  ASSERT_TRUE(fs->write(a, 2 * kTestBlock, as_bytes("new"), false));
  fs->closed(a);
  EXPECT_TRUE(fs->sync(a));
  EXPECT_EQ(read(a, kTestBlock, 1), std::string(1, '\0')) << "the content has changed";
}

TEST_F(DamageTest, APackWithAChangedPieceIsKept) {
  vault.change("UPDATE extents SET valid = valid - 1 WHERE ino = {a} AND idx = 2");
  const std::uint64_t pack = block_of(
      count(DamagedVault::filled("SELECT block FROM extents WHERE ino = {a} AND idx = 2")));
  const auto kept = [&] {
    return count(fmt::format("SELECT COUNT(*) FROM memory_blocks WHERE block = {}", pack)) == 1;
  };
  mount();
  EXPECT_EQ(read(find("a"), 2 * kTestBlock, 1).error(), EIO);
  for (const char* name : {"b", "sparse"}) EXPECT_TRUE(fs->unlink(kRootIno, name));
  EXPECT_TRUE(fs->unlink(find("dir"), "b2"));
  EXPECT_TRUE(fs->unlink(find("sub", find("dir")), "deep"));
  for (const char* name : {"/b", "/sparse", "/dir/sub/deep"})
    fs->forget(sample_vault().ino(name), 100);
  unmount();
  EXPECT_TRUE(kept());
  mount();
  unmount();
  EXPECT_TRUE(kept());
  // The row is as it was written.
  vault.change("UPDATE extents SET valid = valid + 1 WHERE ino = {a} AND idx = 2");
  mount();
  expect_good("/a");
  EXPECT_TRUE(fs->unlink(kRootIno, "a"));
  unmount();
  EXPECT_FALSE(kept());
}

// A bit of a row flips, and the index over it does not follow.
TEST_F(DamageTest, AnIndexThatDoesNotFitItsTableStopsNobody) {
  const std::tuple<const char*, const char*, const char*> changes[] = {
      {"packed", "UPDATE extents SET block = block + 1 WHERE ino = {a} AND idx = 2", "a"},
      {"packed", "UPDATE extents SET block = block + 1 WHERE ino = {b} AND idx = 2", "a"},
      {"orphans", "UPDATE inodes SET nlink = 0 WHERE ino = {empty}", "a"},
      {"orphans", "UPDATE inodes SET nlink = 0 WHERE ino = 1", "a"},
  };
  for (const auto& [index, change, file] : changes) {
    SCOPED_TRACE(change);
    make_whole();
    vault.change(
        fmt::format("CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = '{0}';"
                    "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = '{0}'",
                    index));
    vault.change(change);
    vault.change(
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM kept;"
        "DELETE FROM kept");
    mount();
    EXPECT_TRUE(fs->unlink(kRootIno, file));
    fs->forget(sample_vault().ino("/a"), 100);
    ASSERT_TRUE(fs->make({}, kRootIno, "new", {S_IFREG | 0644, 0, {}}));
    EXPECT_TRUE(fs->sync_all());
    unmount();
    EXPECT_EQ(count("SELECT COUNT(*) FROM dentries WHERE name = x'6e6577'"), 1u);
    EXPECT_EQ(count("SELECT COUNT(*) FROM dentries WHERE name = x'61'"), 0u);
  }
}

TEST_F(DamageTest, WhatIsWrittenWholeNeedsNothingThatIsLost) {
  mount();
  AttributeChange longer;
  longer.size = 21 * kTestBlock;
  EXPECT_TRUE(fs->setattr(find("a"), longer));
  unmount();
  vault.change("UPDATE extents SET idx = 7 WHERE ino = {a} AND idx = 1");
  mount();
  const Ino a = find("a");
  const std::string fresh(kTestBlock, 'n');
  EXPECT_EQ(fs->write(a, kTestBlock, as_bytes("n"), false).error(), EIO);
  EXPECT_TRUE(fs->write(a, kTestBlock, as_bytes(fresh), false));
  // Next to the row that has changed, another row may be the one that is looked for.
  EXPECT_EQ(fs->write(a, 20 * kTestBlock, as_bytes(fresh), false).error(), EIO);
  EXPECT_TRUE(fs->sync(a));
  EXPECT_EQ(read(a, 15 * kTestBlock, 1).error(), EIO) << "the place of the other row is not known";
  unmount();
  mount();
  EXPECT_EQ(*read(find("a"), kTestBlock, kTestBlock), fresh);
}

TEST_F(DamageTest, AChangedRootStaysInMemory) {
  vault.change("UPDATE inodes SET uid = 7 WHERE ino = 1");
  options.most_nodes = 1;
  options.own_ticker = false;
  options.commit_every = std::chrono::milliseconds(0);
  mount();
  for (const char* name : {"a", "b", "sparse"}) EXPECT_NE(find(name), 0u);
  fs->beat();
  EXPECT_TRUE(fs->getattr(kRootIno));
  expect_good("/a");
}

TEST_F(DamageTest, AChangedRootIsUsedAsItReads) {
  vault.change("UPDATE inodes SET mode = 16832, uid = 7 WHERE ino = 1");
  mount();
  const auto root = fs->getattr(kRootIno);
  ASSERT_TRUE(root);
  EXPECT_EQ(root->st_mode, S_IFDIR | 0700u);
  EXPECT_EQ(root->st_uid, 7u);
  EXPECT_EQ(root->st_nlink, 4u) << "two directories are in it";
  expect_good("/a");
  unmount();
  EXPECT_EQ(count("SELECT COUNT(*) FROM inodes WHERE ino = 1 AND checksum <> "
                  "row_checksum('inodes', ino, mode, uid, gid, nlink, rdev, size, blocks, atime, "
                  "mtime, ctime, parent, target)"),
            1u)
      << "fsck still finds it";
}

TEST_F(DamageTest, AnAttributeThatHasChangedByItselfGivesAnError) {
  vault.change("UPDATE xattrs SET value = x'00'");
  mount();
  EXPECT_EQ(fs->get_xattr(find("a"), "user.note").error(), EIO);
  // If the row were replaced or removed, no one could tell that something was lost.
  EXPECT_EQ(fs->set_xattr(find("a"), "user.note", "new", 0).error(), EIO);
  EXPECT_EQ(fs->remove_xattr(find("a"), "user.note").error(), EIO);
  EXPECT_EQ(fs->get_xattr(find("a"), "user.other").error(), EIO)
      << "it may be the damaged row's name";
  EXPECT_EQ(fs->list_xattrs(find("a")).error(), EIO);
  EXPECT_GT(fs->status().damage, 0u);
  expect_good("/a");
}

// The record of a name in its table. Its header has the types of its values: 1, a blob of one byte,
// an inode's number, a type, a checksum.
const std::string kRecordOfB =
    "\x06\x09\x0e\x01\x03\x06"
    "b";

class FlippedBitTest : public DamageTest {
 protected:
  /// Changes a byte of the record, and checks that the damage does not go unreported.
  void expect_loud(std::size_t byte, char value) {
    vault.put_bytes(kRecordOfB, byte, std::string(1, value));
    options.back_up_every = std::chrono::hours(1);
    mount();
    EXPECT_GT(fs->status().damage, 0u);
    EXPECT_FALSE(fs->status().first_damage.empty());
    EXPECT_FALSE(read_listing(*fs, kRootIno).whole) << "a listing may be incomplete";
    for (const char* name : {"a", "b", "dir", "empty", "empty-dir", "fifo", "link", "sparse"})
      EXPECT_NE(error_of(name), ENOENT) << name;
    EXPECT_EQ(fs->make({}, kRootIno, "b", {S_IFREG | 0644, 0, {}}).error(), EIO);
    EXPECT_EQ(fs->back_up().error(), EUCLEAN);
    const auto dir = fs->lookup(kRootIno, "dir");
    if (!dir) return;
    EXPECT_EQ(fs->lookup(dir->st_ino, "none").error(), ENOENT) << "its own names are sound";
    EXPECT_TRUE(read_listing(*fs, dir->st_ino).whole);
  }
};

TEST_F(FlippedBitTest, OneInTheTypeOfANameHidesNothing) { expect_loud(2, '\x0f'); }
TEST_F(FlippedBitTest, OneInTheSizeOfAHeaderHidesNothing) { expect_loud(0, '\x0e'); }
TEST_F(FlippedBitTest, OneInTheNumberOfADirectoryHidesNothing) { expect_loud(1, '\x08'); }
TEST_F(FlippedBitTest, OneInANameHidesNothing) { expect_loud(6, 'c'); }

TEST_F(DamageTest, RowsOfOlderVersionsGetChecksumsAsTheyAreWritten) {
  for (const TableSql& table : kTables)
    vault.change(fmt::format("ALTER TABLE {} DROP COLUMN checksum", table.name));
  options.read_only = true;
  mount();
  expect_good("/a");
  unmount();
  options.read_only = false;
  mount();
  expect_good("/a");
  ASSERT_TRUE(fs->write(find("b"), 0, as_bytes("x"), false));
  unmount();
  const auto sealed = [&](const char* name) {
    return count(fmt::format("SELECT COUNT(*) FROM inodes WHERE checksum IS NOT NULL AND ino = {}",
                             sample_vault().ino(name)));
  };
  EXPECT_EQ(sealed("/b"), 1u);
  EXPECT_EQ(sealed("/empty"), 0u);
  vault.change("UPDATE inodes SET size = 5 WHERE ino = {b}");
  mount();
  EXPECT_EQ(error_of("b"), EIO);
  expect_good("/a");
}

TEST_F(DamageTest, AnInodeThatIsNotWhatItsNameSaysCostsItsFile) {
  vault.damage("UPDATE inodes SET mode = 33188 WHERE ino = {dir}");
  vault.damage("UPDATE inodes SET mode = 16877 WHERE ino = {a}");
  vault.damage("UPDATE dentries SET type = 4096 WHERE ino = {empty}");
  vault.damage("UPDATE inodes SET target = x'' WHERE ino = {link}");
  mount();
  for (const char* name : {"dir", "a", "empty", "link"}) EXPECT_EQ(error_of(name), EIO) << name;
  expect_good("/b");
}

TEST_F(DamageTest, ALostInodesNumberIsNotTaken) {
  vault.damage("DELETE FROM inodes WHERE ino = {sparse}");
  mount();
  const auto made = fs->make({}, kRootIno, "new", {S_IFREG | 0644, 0, {}});
  ASSERT_TRUE(made);
  EXPECT_NE(made->st_ino, sample_vault().ino("/sparse"));
}

TEST_F(DamageTest, ABadNameCostsThatName) {
  vault.damage("UPDATE dentries SET name = x'612f62' WHERE ino = {a}");
  mount();
  const auto entries = fs->list(kRootIno);
  ASSERT_TRUE(entries);
  EXPECT_EQ(entries->size(), 2u + 7u);
  expect_good("/b");
}

TEST_F(DamageTest, WithoutItsTablesItIsNotMounted) {
  vault.damage("DROP TABLE extents");
  EXPECT_EQ(refused(), Errc::damaged_vault);
  vault.damage("DROP TABLE inodes; DROP TABLE dentries; DROP TABLE xattrs; DROP TABLE fs_state");
  EXPECT_EQ(refused(), Errc::damaged_vault) << "and not taken for a new one";
  EXPECT_EQ(count("SELECT COUNT(*) FROM memory_blocks"), 10u);
}

class ReadOnlyTest : public DamageTest {
 protected:
  ReadOnlyTest() { options.read_only = true; }
};

TEST_F(ReadOnlyTest, EverythingIsReadAndNothingChanged) {
  const Dump before = vault.dump();
  mount();
  for (const char* name : {"/a", "/b"}) expect_good(name);
  const Ino a = find("a");
  AttributeChange change;
  change.mode = 0777;
  const auto is_refused = [](const auto& outcome) { return !outcome && outcome.error() == EROFS; };
  EXPECT_TRUE(is_refused(fs->setattr(a, change)));
  EXPECT_TRUE(is_refused(fs->write(a, 0, as_bytes("x"), false)));
  EXPECT_TRUE(is_refused(fs->write(a, 0, as_bytes("x"), true)));
  EXPECT_TRUE(is_refused(fs->make({}, kRootIno, "new", {S_IFREG | 0644, 0, {}})));
  EXPECT_TRUE(is_refused(fs->link(a, kRootIno, "new")));
  EXPECT_TRUE(is_refused(fs->unlink(kRootIno, "a")));
  EXPECT_TRUE(is_refused(fs->rmdir(kRootIno, "empty-dir")));
  EXPECT_TRUE(is_refused(fs->rename(kRootIno, "a", kRootIno, "c", 0)));
  EXPECT_TRUE(is_refused(fs->set_xattr(a, "user.x", "y", 0)));
  EXPECT_TRUE(is_refused(fs->remove_xattr(a, "user.note")));
  EXPECT_TRUE(is_refused(fs->fallocate(a, 0, 0, 100)));
  EXPECT_EQ(*fs->get_xattr(a, "user.note"), "kept");
  EXPECT_TRUE(fs->sync(a));
  EXPECT_TRUE(fs->sync_names());
  EXPECT_TRUE(fs->sync_all());
  EXPECT_TRUE(fs->statfs());
  unmount();
  EXPECT_TRUE(changed(before, vault.dump()).empty());
}

TEST_F(ReadOnlyTest, NothingIsFreed) {
  vault.damage("INSERT INTO memory_blocks VALUES (50, zeroblob(4096))");
  vault.damage("UPDATE inodes SET nlink = 0 WHERE ino = {empty}");
  vault.damage("DELETE FROM dentries WHERE ino = {empty}");
  const Dump before = vault.dump();
  mount();
  expect_good("/a");
  unmount();
  EXPECT_TRUE(changed(before, vault.dump()).empty());
  EXPECT_EQ(count("SELECT COUNT(*) FROM memory_blocks"), 11u);
}

TEST_F(ReadOnlyTest, CommitsThatFailAreNoError) {
  options.commit_every = std::chrono::milliseconds(1);
  mount();
  device->fail_commits(true);
  for (const char* name : {"/a", "/b"}) expect_good(name);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (device->counts().commits == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
    std::this_thread::yield();
  }
  expect_good("/a");
  EXPECT_TRUE(fs->sync_all());
}

TEST_F(ReadOnlyTest, WithoutARootThereIsOneForTheTime) {
  vault.damage("DELETE FROM inodes WHERE ino = 1");
  const Dump before = vault.dump();
  mount();
  expect_good("/a");
  unmount();
  EXPECT_TRUE(changed(before, vault.dump()).empty());
}

TEST_F(ReadOnlyTest, AVaultWithoutFilesIsNotMounted) {
  vault.damage(
      "DROP TABLE extents; DROP TABLE inodes; DROP TABLE dentries; DROP TABLE xattrs;"
      "DROP TABLE fs_state; DELETE FROM memory_blocks");
  EXPECT_EQ(refused(), Errc::failed);
}

}  // namespace
}  // namespace s3oram
