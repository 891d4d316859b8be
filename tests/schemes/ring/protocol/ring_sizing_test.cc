// Tests how the numbers of a ring volume are chosen.
#include "oramcore/schemes/ring/protocol/ring_sizing.h"

#include <gtest/gtest.h>

#include "oramcore/protocol/store_size.h"
#include "oramcore/schemes/ring/protocol/ring_params.h"

namespace s3oram::ring {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30, kMiB = 1 << 20;

Wishes wishes(std::uint64_t expect) {
  Wishes made{.kind = SchemeKind::ring, .scheme = {0, 1}};
  made.expect = expect;
  return made;
}

TEST(RingSizing, TheTopSuitsTheData) {
  unsigned before = 0;
  for (const std::uint64_t expect : {64 * kMiB, 8 * kGiB, 64 * kGiB}) {
    const auto choice = choose_ring(wishes(expect));
    ASSERT_TRUE(choice) << choice.error().message;
    EXPECT_TRUE(check_params(choice->params));
    EXPECT_GE(choice->params.top_levels, before);
    EXPECT_EQ(choice->params.first_height, choice->params.top_levels);
    EXPECT_LE(cache_bytes(choice->params), 512 * kMiB) << expect;
    before = choice->params.top_levels;
  }
}

TEST(RingSizing, ALocalVaultTakesLittleOfASmallDisk) {
  Wishes small = wishes(8 * kGiB);
  small.local = true;
  small.free = 2 * kGiB;
  const auto choice = choose_ring(small);
  ASSERT_TRUE(choice);
  const VolumeParams& params = choice->params;
  EXPECT_LE(store_bytes(params, params.first_height) + cache_bytes(params), 2 * kGiB / 8);
  small.free = 2 * kMiB;  // init says that this is too little
  const auto least = choose_ring(small);
  ASSERT_TRUE(least);
  EXPECT_EQ(least->params.top_levels, 1);
}

// The server is elsewhere, but top.cache is here.
TEST(RingSizing, TheTopTakesLittleOfASmallDiskHere) {
  Wishes large = wishes(64 * kGiB);
  const auto most = choose_ring(large);
  large.free = 1 * kGiB;
  const auto choice = choose_ring(large);
  ASSERT_TRUE(most && choice);
  EXPECT_GT(cache_bytes(most->params), kGiB / 8);
  EXPECT_LE(cache_bytes(choice->params), kGiB / 8);
  EXPECT_LT(choice->params.top_levels, most->params.top_levels);
}

TEST(RingSizing, BlocksAreSmallWhereTheLineIsSlow) {
  Wishes far = wishes(8 * kGiB);
  far.lines = {.up = 5 * kMegabit, .down = 29 * kMegabit};
  const auto slow = choose_ring(far);
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->params.block_size, 16u << 10);
  far.lines = {.up = 500 * kMegabit, .down = 500 * kMegabit};
  const auto fast = choose_ring(far);
  ASSERT_TRUE(fast);
  EXPECT_EQ(fast->params.block_size, 64u << 10);
}

TEST(RingSizing, WhatIsAskedForIsTaken) {
  Wishes asked = wishes(8 * kGiB);
  asked.top_cache = 512 * kMiB;
  const auto choice = choose_ring(asked);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->params.top_levels, 7);
  EXPECT_LE(cache_bytes(choice->params), 512 * kMiB);
  asked.top_cache = 1 * kMiB;
  const auto little = choose_ring(asked);
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().code, Errc::usage);
  asked = wishes(8 * kGiB);
  asked.bucket_size = 4;
  EXPECT_FALSE(choose_ring(asked));
  asked.allow_overflow = true;
  EXPECT_TRUE(choose_ring(asked));
}

TEST(RingSizing, SaysThatThereIsOneCopy) {
  const auto choice = choose_ring(wishes(8 * kGiB));
  ASSERT_TRUE(choice);
  EXPECT_NE(choice->why.find("One copy: this server's disk is your disk: keep it on RAID or back "
                             "it up.\n"),
            std::string::npos);
}

}  // namespace
}  // namespace s3oram::ring
