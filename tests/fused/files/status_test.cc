// Tests what a file system reports about itself, and what it drops from memory on request.
#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;

class FileSystemStatusTest : public FileSystemFixture {};

TEST_F(FileSystemStatusTest, AllIsDurableAfterASync) {
  const Ino ino = create("file");
  write(ino, 0, pattern(3 * kTestBlock));
  const FileSystemStatus before = fs->status();
  EXPECT_GE(before.dirty_bytes, 3u * kTestBlock);
  EXPECT_GT(before.uncommitted_rows, 0u);
  EXPECT_EQ(before.failing_bytes, 0u);
  ASSERT_TRUE(fs->sync_all());
  const FileSystemStatus after = fs->status();
  EXPECT_EQ(after.dirty_bytes, 0u);
  EXPECT_EQ(after.uncommitted_rows, 0u);
  EXPECT_EQ(after.lag, 0ms);
}

TEST_F(FileSystemStatusTest, ACommitUnderWayIsNotDurableYet) {
  create("file");
  const auto rows = fs->status().uncommitted_rows;
  EXPECT_GT(rows, 0u);
  static_cast<void>(fs->snapshot());
  EXPECT_EQ(fs->status().uncommitted_rows, rows);
  fs->committed(fail(Errc::failed, "the disk is away"));
  EXPECT_EQ(fs->status().uncommitted_rows, rows);
  static_cast<void>(fs->snapshot());
  fs->committed({});
  EXPECT_EQ(fs->status().uncommitted_rows, 0u);
}

// The file keeps its previous content until the new one can commit.
TEST_F(FileSystemStatusTest, AFileThatWasEmptiedIsNotDurableYet) {
  const Ino ino = create("file");
  write(ino, 0, pattern(3 * kTestBlock));
  ASSERT_TRUE(fs->sync_all());
  resize(ino, 0);
  static_cast<void>(fs->snapshot());
  fs->committed({});
  EXPECT_EQ(fs->status().dirty_bytes, 0u);
  EXPECT_GT(fs->status().uncommitted_rows, 0u);
  ASSERT_TRUE(fs->sync_all());
  EXPECT_EQ(fs->status().uncommitted_rows, 0u);
}

TEST_F(FileSystemStatusTest, CountsWhatCannotBeWritten) {
  remount_with_deadline(20ms);
  const Ino ino = create("file");
  write(ino, 0, pattern(2 * kTestBlock));
  device->fail_writes(true);
  EXPECT_FALSE(fs->sync(ino));
  const FileSystemStatus failing = fs->status();
  EXPECT_EQ(failing.failing_bytes, 2u * kTestBlock);
  EXPECT_EQ(failing.no_room_bytes, 0u);
  EXPECT_GT(failing.lag, 0ms);
  device->fail_writes(false);
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (!fs->sync(ino) && std::chrono::steady_clock::now() < deadline) continue;
  EXPECT_EQ(fs->status().failing_bytes, 0u);
  EXPECT_EQ(fs->status().failing_for, 0ms);
}

TEST_F(FileSystemStatusTest, WhatIsDroppedIsReadAgain) {
  const Ino ino = create("file"), small = create("small");
  write(ino, 0, pattern(2 * kTestBlock));
  write(small, 0, "a piece");
  ASSERT_TRUE(fs->sync_all());
  accesses();
  EXPECT_EQ(read(ino), pattern(2 * kTestBlock));
  EXPECT_EQ(accesses(), 0u);
  write(ino, 0, "X");  // dirty, so it stays
  fs->drop_clean();
  EXPECT_EQ(read(ino, 0, 1), "X");
  EXPECT_EQ(accesses(), 0u);
  EXPECT_EQ(read(ino, kTestBlock, kTestBlock), pattern(2 * kTestBlock).substr(kTestBlock));
  EXPECT_EQ(accesses(), 1u);
  EXPECT_EQ(read(small), "a piece");  // its pack, which takes more pieces, is still open
}

}  // namespace
}  // namespace s3oram
