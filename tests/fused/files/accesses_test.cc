// Counts the accesses that operations on files cost.
#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

class AccessesTest : public FileSystemFixture {};

TEST_F(AccessesTest, WritingCostsOneAccessABlock) {
  const Ino ino = create("a");
  const std::string text = pattern(10 * kTestBlock + 1);
  for (std::size_t at = 0; at < text.size(); at += 1000) write(ino, at, text.substr(at, 1000));
  sync(ino);
  EXPECT_EQ(accesses(), 11u);
  sync(ino);
  EXPECT_EQ(read(ino), text);
  EXPECT_EQ(accesses(), 0u);
}

TEST_F(AccessesTest, AFullOverwriteReadsNothing) {
  const Ino ino = create("a");
  write(ino, 0, pattern(kTestBlock + 100));
  remount();
  accesses();
  const Ino again = find("a");
  write(again, 0, pattern(kTestBlock, 2));
  write(again, kTestBlock, pattern(100, 2));  // all valid bytes of the block
  sync(again);
  EXPECT_EQ(device->counts().reads, 0u);
  EXPECT_EQ(device->counts().writes, 2u);
  write(again, kTestBlock, "x");
  remount();
  write(find("a"), kTestBlock, "y");  // a part of the valid bytes: one read
  sync(find("a"));
  EXPECT_EQ(device->counts().reads, 1u);
  EXPECT_EQ(device->counts().writes, 1u);
  EXPECT_EQ(read(find("a"), kTestBlock, 100), "y" + pattern(100, 2).substr(1));
}

TEST_F(AccessesTest, HolesTruncationAndRemovalCostNothing) {
  const Ino ino = create("a");
  write(ino, 100 * kTestBlock, "end");
  sync(ino);
  EXPECT_EQ(accesses(), 1u);
  EXPECT_EQ(read(ino, 0, 100 * kTestBlock), std::string(100 * kTestBlock, '\0'));
  write(ino, 0, pattern(20 * kTestBlock));
  resize(ino, 0);  // never flushed
  sync(ino);
  EXPECT_TRUE(fs->unlink(kRootIno, "a"));
  fs->forget(ino, 1);
  EXPECT_TRUE(fs->sync_all());
  EXPECT_EQ(accesses(), 0u);
  EXPECT_EQ(device->counts().discards, 1u);
}

TEST_F(AccessesTest, AnUnlinkedFileIsNotFlushed) {
  const Ino ino = create("a");
  write(ino, 0, pattern(5 * kTestBlock));
  EXPECT_TRUE(fs->unlink(kRootIno, "a"));
  EXPECT_TRUE(fs->sync_all());
  EXPECT_EQ(read(ino), pattern(5 * kTestBlock));
  EXPECT_EQ(accesses(), 0u);
}

TEST_F(AccessesTest, ReadingCostsOneAccessABlockAndReadsAhead) {
  const std::string text = pattern(100 * kTestBlock);
  write(create("a"), 0, text);
  remount();
  const Ino ino = find("a");
  EXPECT_EQ(read(ino, 0, 10), text.substr(0, 10));
  EXPECT_EQ(device->counts().reads, 1u);
  EXPECT_EQ(read(ino, kTestBlock, 10), text.substr(kTestBlock, 10));
  EXPECT_EQ(device->counts().reads, 4u);  // and two ahead
  for (std::size_t at = 0; at < text.size(); at += 5000)
    ASSERT_EQ(read(ino, at, 5000), text.substr(at, 5000));
  EXPECT_EQ(device->counts().reads, 100u);
  remount();
  EXPECT_EQ(read(find("a"), 50 * kTestBlock, 10), text.substr(50 * kTestBlock, 10));
  EXPECT_EQ(read(find("a"), 20 * kTestBlock, 10), text.substr(20 * kTestBlock, 10));
  EXPECT_EQ(device->counts().reads, 2u);  // not sequential
}

}  // namespace
}  // namespace s3oram
