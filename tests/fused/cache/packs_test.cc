// Small pieces of several files in one block: what they cost, and that none is lost.
#include <fmt/format.h>

#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

constexpr std::size_t kSize = 300, kInAPack = kTestBlock / kSize;

class PacksTest : public FileSystemFixture {
 protected:
  static std::string name(unsigned i) { return fmt::format("file {}", i); }
  static std::string content(unsigned i) { return pattern(kSize, i + 1); }
  void make(unsigned count) {
    for (unsigned i = 0; i < count; ++i) write(create(name(i)), 0, content(i));
  }
  void expect(unsigned i) { EXPECT_EQ(read(find(name(i))), content(i)) << i; }
  void remove(unsigned i) {
    const Ino ino = find(name(i));
    EXPECT_TRUE(fs->unlink(kRootIno, name(i)));
    fs->forget(ino, 2);  // the references of create() and find()
  }
  std::size_t blocks() {
    EXPECT_TRUE(fs->sync_all());
    return device->mapped().size();
  }
};

TEST_F(PacksTest, WhatIsFlushedTogetherSharesItsAccesses) {
  constexpr unsigned kFiles = 100;
  const unsigned packs = (kFiles + kInAPack - 1) / kInAPack;
  make(kFiles);
  ASSERT_TRUE(fs->sync_all());
  EXPECT_EQ(accesses(), packs);
  remount();
  accesses();
  for (unsigned i = 0; i < kFiles; ++i) expect(i);
  EXPECT_EQ(device->counts().reads, packs) << "also if they are read soon after each other";
  EXPECT_EQ(blocks(), packs);
}

TEST_F(PacksTest, EachFsyncIsOneAccessAndTheirFilesStillShareABlock) {
  for (unsigned i = 0; i < kInAPack; ++i) {
    write(create(name(i)), 0, content(i));
    sync(find(name(i)));
    EXPECT_EQ(accesses(), 1u);
  }
  EXPECT_EQ(blocks(), 1u);
  crash();
  mount();
  for (unsigned i = 0; i < kInAPack; ++i) expect(i);
}

TEST_F(PacksTest, APieceThatGrowsGetsABlockOfItsOwnAndOneThatShrinksStaysThere) {
  const Ino ino = create("a");
  write(ino, 0, pattern(kTestBlock / 2));
  sync(ino);
  write(ino, kTestBlock / 2, "x");
  EXPECT_EQ(blocks(), 1u);
  EXPECT_EQ(fs->getattr(ino)->st_blocks, kTestBlock / 512);
  resize(ino, 10);
  write(ino, 0, "y");
  EXPECT_EQ(blocks(), 1u);
  remount();
  EXPECT_EQ(read(find("a")), "y" + pattern(kTestBlock / 2).substr(1, 9));
}

TEST_F(PacksTest, WhatAnUncommittedRewriteLeavesIsTheFormerContent) {
  make(3);
  ASSERT_TRUE(fs->sync_all());
  write(find(name(1)), 0, pattern(kSize, 77));
  device->fail_commits(true);
  EXPECT_FALSE(fs->sync(find(name(1))));
  crash();
  mount();
  for (unsigned i = 0; i < 3; ++i) expect(i);
}

TEST_F(PacksTest, AFailedWriteIsRepeatedElsewhere) {
  device->fail_writes(true);
  make(2);
  options.cache.deadline = std::chrono::milliseconds(50);
  device->fail_writes(false);
  ASSERT_TRUE(fs->sync_all());
  remount();
  expect(0);
  expect(1);
  EXPECT_EQ(blocks(), 1u);
}

TEST_F(PacksTest, TheirBlocksComeFreeWithTheLastPiece) {
  make(10 * kInAPack);
  EXPECT_EQ(blocks(), 10u);
  for (unsigned i = 0; i < 10 * kInAPack; ++i) remove(i);
  EXPECT_EQ(blocks(), 0u);
}

TEST_F(PacksTest, ATailThatIsAHoleTakesNoRoomOfOthers) {
  const auto bytes = [&](Ino ino) {
    return 512 * static_cast<std::uint64_t>(fs->getattr(ino)->st_blocks);
  };
  const Ino ino = create("a");
  write(ino, 0, pattern(4 * kTestBlock));
  resize(ino, 1000 * kTestBlock + 10);
  EXPECT_EQ(bytes(ino), 4 * kTestBlock);
  sync(ino);
  EXPECT_EQ(bytes(ino), 4 * kTestBlock);
  write(ino, 1000 * kTestBlock, "x");
  EXPECT_EQ(bytes(ino), 4 * kTestBlock + 512);
  sync(ino);
  EXPECT_EQ(bytes(ino), 4 * kTestBlock + 512);
}

TEST_F(PacksTest, PacksOfWhichLittleIsLeftAreEmptied) {
  options.own_ticker = false;
  options.commit_every = std::chrono::milliseconds(0);
  remount();
  constexpr unsigned kPacks = 40;
  make(kPacks * kInAPack);
  EXPECT_EQ(blocks(), kPacks);
  const auto stays = [](unsigned i) { return i % kInAPack == 5; };
  for (unsigned i = 0; i < kPacks * kInAPack; ++i) {
    if (!stays(i)) remove(i);
  }
  EXPECT_GT(blocks(), kPacks / 2);
  for (unsigned i = 0; i < 2 * kPacks; ++i) fs->beat();
  EXPECT_LT(blocks(), kPacks / 2);
  for (int again = 0; again < 2; ++again, remount())
    for (unsigned i = 0; i < kPacks * kInAPack; ++i)
      if (stays(i)) expect(i);
}

}  // namespace
}  // namespace s3oram
