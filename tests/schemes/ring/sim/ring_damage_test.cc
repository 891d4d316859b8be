// Tests a ring whose server's disk is damaged, or whose server's store is rolled back.
#include <gtest/gtest.h>

#include "tests/schemes/ring/sim/ring_driver.h"

namespace s3oram::ring::test {
namespace {

/// Damages these rows of the first five bucket versions on the server's disk.
void spoil(RingWorld& world, std::initializer_list<unsigned> rows) {
  const Params params(world.params());
  const std::uint64_t stride = params.row_size + BucketVersion::kTrailer;
  for (const unsigned version : {0u, 1u, 2u, 3u, 4u})
    for (const unsigned row : rows)
      world.disk(kServer).rot(
          "slots",
          (params.log_slots + std::uint64_t{version} * (params.bucket_size + 1) + row) * stride + 9,
          0x20);
}

class RingDamage : public testing::Test {
 protected:
  static constexpr BlockId kBlocks = 30;
  void SetUp() override {
    ASSERT_GOOD(world.open_client());
    write_all();
    ASSERT_GOOD(world.close_client());
    ASSERT_GOOD(world.stop_server());
  }
  void write_all() {
    ++generation;
    for (BlockId block = 0; block < kBlocks; ++block)
      ASSERT_GOOD(world.write(block, pattern(block, generation, 512)));
  }
  /// Returns how many blocks cannot be read; all others must be right.
  unsigned lost() {
    unsigned lost = 0;
    for (BlockId block = 0; block < kBlocks; ++block) {
      const auto got = world.read(block);
      if (got) {
        EXPECT_EQ(*got, pattern(block, generation, 512)) << "block " << block;
      } else {
        EXPECT_EQ(got.error().code, Errc::corrupt) << got.error().message;
      }
      lost += !got;
    }
    return lost;
  }
  RingWorld world{small_ring(4, 3, 1), 21};
  std::uint64_t generation = 0;
};

TEST_F(RingDamage, OneRowOfABucketCostsNothing) {
  spoil(world, {1});
  world.start_server();
  ASSERT_GOOD(world.open_client());
  EXPECT_EQ(lost(), 0u);
  const auto healed = world.run(world.engine().scrub({}));
  ASSERT_GOOD(healed);
  EXPECT_EQ(healed->lost, 0u);
}

TEST_F(RingDamage, TwoRowsCostTheBlocksOfTheirBucketAndNoOther) {
  spoil(world, {0, 3});
  world.start_server();
  ASSERT_GOOD(world.open_client());
  const auto healed = world.run(world.engine().scrub({}));
  ASSERT_GOOD(healed);
  EXPECT_GT(healed->lost, 0u);
  const unsigned gone = lost();
  EXPECT_GT(gone, 0u);
  EXPECT_LT(gone, 21u);
  EXPECT_EQ(world.engine().status().unreadable, gone);
  ASSERT_GOOD(world.close_client());
  ASSERT_GOOD(world.open_client());
  EXPECT_EQ(lost(), gone) << "they do not read as zeros later either";
  write_all();
  EXPECT_EQ(lost(), 0u);
  EXPECT_EQ(world.engine().status().unreadable, 0u);
}

// While nothing can be read, nothing is given up, because everything is still on the server's disk.
TEST_F(RingDamage, AReadErrorThatPassesCostsNothing) {
  world.start_server();
  ASSERT_GOOD(world.open_client());
  world.disk(kServer).faults.read = 1;
  unsigned written = 0;
  for (BlockId block = 0; block < 12; ++block)
    world.engine().write(block, pattern(block, generation, 512), [&](Status status) {
      EXPECT_TRUE(status) << status.error().message;
      ++written;
    });
  world.pass(std::chrono::seconds(20));
  world.disk(kServer).faults.read = 0;
  world.run_until([&] { return written == 12; });
  EXPECT_EQ(lost(), 0u);
  EXPECT_EQ(world.engine().status().unreadable, 0u);
}

// All of a young ring's blocks may be in the kept top, and then the server need not be asked.
TEST(RingScrub, OfAVolumeThatCannotGoOnSaysSo) {
  RingWorld world{small_ring(4, 3, 1), 22};
  ASSERT_GOOD(world.open_client());
  ASSERT_GOOD(world.run(world.engine().scrub({})));
  ASSERT_GOOD(world.run(world.engine().close()));
  EXPECT_EQ(world.engine().status().failure, "") << "a volume that is closed has not failed";
  const auto healed = world.run(world.engine().scrub({}));
  ASSERT_FALSE(healed);
  EXPECT_EQ(healed.error().code, Errc::shutting_down);
}

class RingSetBack : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < 3; ++block) ASSERT_GOOD(world.write(block, Bytes(512, 1)));
    ASSERT_GOOD(world.commit());
  }
  void set_back() {
    if (world.runs(kServer)) ASSERT_GOOD(world.stop_server());
    world.disk(kServer).put(image);
    world.start_server();
  }
  // An eviction comes only every 60 accesses, so that some turns are possible without one.
  RingWorld world{small_ring(8, 60, 1), 31};
  DiskImage image;
};

TEST_F(RingSetBack, IsNoticedWhenTheVolumeIsOpened) {
  image = world.disk(kServer).image();
  ASSERT_GOOD(world.write(7, Bytes(512, 2)));
  ASSERT_GOOD(world.close_client());
  const DiskImage newest = world.disk(kServer).image();
  set_back();
  const Status refused = world.open_client();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::wrong_volume);
  EXPECT_NE(refused.error().message.find("set back"), std::string::npos);
  image = newest;
  set_back();
  ASSERT_GOOD(world.open_client());
  EXPECT_EQ(*world.read(7), Bytes(512, 2));
}

TEST_F(RingSetBack, IsNoticedWhileTheVolumeIsOpen) {
  image = world.disk(kServer).image();
  ASSERT_GOOD(world.write(7, Bytes(512, 2)));
  const DiskImage newest = world.disk(kServer).image();
  set_back();
  bool ended = false;
  world.engine().read(1, [&](Result<Bytes> got) {
    ended = true;
    EXPECT_TRUE(got && *got == Bytes(512, 1));
  });
  world.pass(std::chrono::seconds(30));
  EXPECT_FALSE(ended) << "it waits for the newest store";
  const auto trouble = world.engine().status().servers.at(0).trouble;
  ASSERT_TRUE(trouble);
  EXPECT_EQ(trouble->error.code, Errc::wrong_volume);
  image = newest;
  set_back();
  world.run_until([&] { return ended; });
  EXPECT_EQ(*world.read(7), Bytes(512, 2));
}

}  // namespace
}  // namespace s3oram::ring::test
