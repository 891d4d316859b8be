// Tests the state after power cuts at bad moments.
#include <linux/falloc.h>
#include <linux/fs.h>

#include <future>
#include <thread>

#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

class CrashTest : public FileSystemFixture {
 protected:
  void crash_and_mount() {
    crash();
    mount();
  }
};

TEST_F(CrashTest, WhatWasSyncedIsThere) {
  const Ino ino = create("a");
  write(ino, 0, pattern(3 * kTestBlock));
  sync(ino);
  write(ino, 0, "lost");
  create("lost");
  crash_and_mount();
  EXPECT_EQ(read(find("a")), pattern(3 * kTestBlock));
  EXPECT_EQ(find("lost"), 0u);
}

// If they did not, fsck would find that the root had lost its attributes.
TEST_F(CrashTest, TheRootCommitsWithTheTables) {
  crash();
  auto database = Database::open((folder.path() / "vault.db").string(), Database::Mode::read_only);
  ASSERT_TRUE(database);
  auto roots = database->prepare("SELECT COUNT(*) FROM inodes WHERE ino = 1");
  ASSERT_TRUE(roots && roots->step());
  EXPECT_EQ(roots->integer(0), 1);
}

TEST_F(CrashTest, SizesAndExtentsCommitOnlyAfterTheirData) {
  remount_with_deadline(std::chrono::milliseconds(50));
  const Ino ino = create("a");
  device->hold_writes(true);
  write(ino, 0, pattern(2 * kTestBlock));
  EXPECT_FALSE(fs->sync(ino));
  ASSERT_TRUE(fs->sync_names());
  crash_and_mount();
  EXPECT_EQ(fs->getattr(find("a"))->st_size, 0);
  EXPECT_TRUE(device->mapped().empty());
}

TEST_F(CrashTest, WhatIsWrittenDuringASyncDoesNotHoldItsSizeBack) {
  const Ino ino = create("a");
  device->hold_writes(true);
  write(ino, 2 * kTestBlock, "end");
  std::thread syncing([&] { sync(ino); });
  ASSERT_TRUE(device->wait_held_writes(1));
  write(ino, 0, pattern(kTestBlock));
  device->release_write();
  syncing.join();
  crash_and_mount();
  EXPECT_EQ(read(find("a")), std::string(2 * kTestBlock, '\0') + "end");
}

TEST_F(CrashTest, BlocksThatNobodyOwnsAreFreedAtMount) {
  const Ino ino = create("a");
  ASSERT_TRUE(fs->sync_names());
  {
    // The device commits data whose extents the participant could not record. The device's own
    // commit between two snapshots cannot cause that, but a copy of an old database can.
    auto database =
        Database::open((folder.path() / "vault.db").string(), Database::Mode::read_write);
    ASSERT_TRUE(database);
    crash();
    ASSERT_TRUE(database->execute("INSERT INTO memory_blocks VALUES (5, zeroblob(4096))"));
  }
  mount();
  EXPECT_EQ(find("a"), ino);
  remount();
  EXPECT_TRUE(device->mapped().empty());
}

TEST_F(CrashTest, UnlinkedFilesAreFreedAtMount) {
  const Ino ino = create("a");
  write(ino, 0, pattern(3 * kTestBlock));
  ASSERT_TRUE(fs->set_xattr(ino, "user.x", "y", 0));
  sync(ino);
  ASSERT_TRUE(fs->unlink(kRootIno, "a"));
  ASSERT_TRUE(fs->sync_names());
  EXPECT_EQ(device->counts().discards, 0u);
  crash_and_mount();
  EXPECT_EQ(fs->status().inodes, 1u);
  EXPECT_EQ(device->counts().discards, 3u);
  remount();
  EXPECT_TRUE(device->mapped().empty());
}

TEST_F(CrashTest, AFailedCommitLosesNothing) {
  const Ino ino = create("a");
  write(ino, 0, "one");
  device->fail_commits(true);
  EXPECT_FALSE(fs->sync(ino));
  write(ino, 0, "two");
  create("b");
  device->fail_commits(false);
  sync(ino);
  crash_and_mount();
  EXPECT_EQ(read(find("a")), "two");
  EXPECT_NE(find("b"), 0u);
}

TEST_F(CrashTest, ARenameOverAFileBringsItsData) {
  write(create("config"), 0, "old");
  ASSERT_TRUE(fs->sync_all());
  write(create("config.new"), 0, "new");
  ASSERT_TRUE(fs->rename(kRootIno, "config.new", kRootIno, "config", 0));
  ASSERT_TRUE(fs->sync_names());
  crash_and_mount();
  EXPECT_EQ(read(find("config")), "new");
}

TEST_F(CrashTest, AnExchangeOfFilesBringsTheirData) {
  write(create("a"), 0, "old");
  ASSERT_TRUE(fs->sync_all());
  write(create("b"), 0, "new");
  ASSERT_TRUE(fs->rename(kRootIno, "a", kRootIno, "b", RENAME_EXCHANGE));
  ASSERT_TRUE(fs->sync_names());
  crash_and_mount();
  EXPECT_EQ(read(find("a")), "new");
  EXPECT_EQ(read(find("b")), "old");
}

TEST_F(CrashTest, AFileWrittenAnewIsNeverEmpty) {
  const Ino ino = create("a");
  write(ino, 0, pattern(2 * kTestBlock));
  sync(ino);
  resize(ino, 0);
  ASSERT_TRUE(fs->sync_names());
  write(ino, 0, "new");
  ASSERT_TRUE(fs->sync_names());
  EXPECT_EQ(read(ino), "new");
  EXPECT_EQ(fs->getattr(ino)->st_blocks, 1);
  crash_and_mount();
  EXPECT_EQ(read(find("a")), pattern(2 * kTestBlock));

  const Ino again = find("a");
  resize(again, 0);
  write(again, 0, "new");
  device->hold_writes(true);
  fs->closed(again);
  ASSERT_TRUE(device->wait_held_writes(1));
  ASSERT_TRUE(fs->sync_names());  // the new content is not acknowledged yet
  device->hold_writes(false);
  ASSERT_TRUE(fs->sync_all());
  crash_and_mount();
  EXPECT_EQ(read(find("a")), "new");
  remount();
  EXPECT_EQ(device->mapped().size(), 1u);
}

TEST_F(CrashTest, AFileOfWhichNothingIsDurableYetIsReplacedAsAWhole) {
  const Ino ino = create("a");
  write(ino, 0, "former");
  resize(ino, 0);
  write(ino, 0, pattern(2 * kTestBlock));
  device->hold_writes(true);
  fs->closed(ino);
  ASSERT_TRUE(device->wait_held_writes(2));
  device->release_write();
  ASSERT_TRUE(fs->sync_names());
  crash_and_mount();
  EXPECT_EQ(read(find("a")), "");
}

TEST_F(CrashTest, AFileThatIsWrittenAnewAllTheTimeBecomesDurableNowAndThen) {
  unmount();
  options.commit_every = std::chrono::milliseconds(20);
  options.own_ticker =
      false;  // the file system's own ticker would ask the device while the device crashes
  mount();
  const Ino ino = create("a");
  write(ino, 0, "former");
  sync(ino);
  const auto begun = std::chrono::steady_clock::now();
  device->hold_writes(true);
  resize(ino, 0);
  write(ino, 0, "new");
  fs->closed(ino);
  ASSERT_TRUE(device->wait_held_writes(1));
  while (std::chrono::steady_clock::now() - begun < 2 * options.commit_every) continue;
  auto again = std::async(std::launch::async, [&] { resize(ino, 0); });
  device->hold_writes(false);
  while (again.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) fs->beat();
  ASSERT_TRUE(fs->sync_names());
  crash_and_mount();
  EXPECT_EQ(read(find("a")), "new");
}

TEST_F(CrashTest, AHoleInWhatWasNeverFlushedKeepsTheSize) {
  const Ino ino = create("a");
  write(ino, 5 * kTestBlock, "end");
  ASSERT_TRUE(
      fs->fallocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5 * kTestBlock, kTestBlock));
  ASSERT_TRUE(fs->sync_all());
  crash_and_mount();
  EXPECT_EQ(fs->getattr(find("a"))->st_size, 5 * kTestBlock + 3);
}

// A crash leaves neither the old bytes with the new hole, nor the old size without its bytes.
TEST_F(CrashTest, APunchUpToTheEndGoesWithWhatWasWrittenBeforeIt) {
  const std::string old = pattern(kTestBlock - 100);
  const Ino ino = create("a");
  write(ino, 0, old);
  sync(ino);
  write(ino, 1000, std::string(500, 'x'));
  ASSERT_TRUE(
      fs->fallocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1200, 10 * kTestBlock));
  const std::string punched =
      old.substr(0, 1000) + std::string(200, 'x') + std::string(old.size() - 1200, '\0');
  EXPECT_EQ(read(ino), punched);
  ASSERT_TRUE(fs->sync_names());
  crash_and_mount();
  EXPECT_EQ(read(find("a")), old);
  write(find("a"), 1000, std::string(500, 'x'));
  ASSERT_TRUE(
      fs->fallocate(find("a"), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1200, 10 * kTestBlock));
  sync(find("a"));
  crash_and_mount();
  EXPECT_EQ(read(find("a")), punched);
}

// Half of the file may be gone when the power fails, and other operations do not wait until the
// whole file is removed.
TEST_F(CrashTest, ALargeFileIsRemovedInSteps) {
  constexpr std::uint64_t kBlocks = 20'000;  // enough for two commits meanwhile
  const Ino ino = create("a");
  for (std::uint64_t index = 0; index < kBlocks; ++index) write(ino, index * kTestBlock, "x");
  sync(ino);
  const auto before = device->counts().commits;
  ASSERT_TRUE(fs->unlink(kRootIno, "a"));
  EXPECT_EQ(device->counts().commits, before);  // it is still open
  fs->forget(ino, 1);
  EXPECT_EQ(device->counts().commits, before + 2);
  EXPECT_EQ(fs->status().inodes, 1u);
  crash_and_mount();
  EXPECT_EQ(fs->status().inodes, 1u);
  remount();
  EXPECT_TRUE(device->mapped().empty());
}

TEST_F(CrashTest, NumbersOfUnownedBlocksWaitForTheirFreeing) {
  write(create("a"), 0, "x");
  ASSERT_TRUE(fs->sync_all());
  crash();
  {
    auto database =
        Database::open((folder.path() / "vault.db").string(), Database::Mode::read_write);
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->execute("INSERT INTO memory_blocks VALUES (1, zeroblob(4096))"));
  }
  mount();
  const Ino ino = create("b");
  write(ino, 0, "y");
  sync(ino);  // takes another block number; otherwise the device would count a violation
}

TEST_F(CrashTest, TruncateAndGrowThenCrash) {
  const Ino ino = create("a");
  write(ino, 0, std::string(kTestBlock, 'x'));
  sync(ino);
  resize(ino, 10);
  ASSERT_TRUE(fs->sync_names());
  write(ino, 20, "y");  // not flushed
  crash_and_mount();
  EXPECT_EQ(read(find("a")), std::string(10, 'x'));
  resize(find("a"), 30);
  EXPECT_EQ(read(find("a")), std::string(10, 'x') + std::string(20, '\0'));
}

TEST_F(CrashTest, APeriodicCommitBoundsTheLoss) {
  unmount();
  options.commit_every = std::chrono::milliseconds(5);
  options.cache.deadline = std::chrono::seconds(5);  // the crash may leave a commit unanswered
  mount();
  const auto before = device->counts().commits;
  write(create("a"), 0, "soon");
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (fs->status().dirty_bytes > 0 || device->counts().commits == before) {
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
    std::this_thread::yield();
  }
  ASSERT_TRUE(fs->sync_names());
  crash_and_mount();
  EXPECT_EQ(read(find("a")), "soon");
}

}  // namespace
}  // namespace s3oram
