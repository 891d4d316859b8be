// Tests how a volume's numbers are chosen, and predictions of its disk space.
#include "oramcore/protocol/sizing.h"

#include <gtest/gtest.h>

#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/bounds.h"
#include "oramcore/protocol/store_size.h"

namespace s3oram {
namespace {

VolumeParams chosen(const Wishes& wishes) {
  const auto choice = choose_params(wishes);
  EXPECT_TRUE(choice) << choice.error().message;
  return choice ? choice->params : VolumeParams{};
}
std::string why(const Wishes& wishes) {
  const auto choice = choose_params(wishes);
  return choice ? choice->why : choice.error().message;
}

void expect_words(const std::string& text, std::string_view words) {
  EXPECT_NE(text.find(words), std::string::npos) << "no word of \"" << words << "\" in:\n" << text;
}

double cost_in_seconds(const VolumeParams& params, unsigned height) {  // docs/parameters.md
  const AccessCost cost = access_cost(params, height);
  return 10e-3 / params.evict_every +
         params.slot_size() *
             (params.scheme.servers * cost.read / 20e9 + cost.sent / 0.5e9 + cost.written / 0.4e9);
}

TEST(Choose, TakesThePairThatCostsLeast) {
  for (const std::uint64_t expect : {std::uint64_t{100} << 20, std::uint64_t{2} << 40}) {
    const VolumeParams best = chosen({.scheme = {1, 3}, .expect = expect});
    const auto cost = [&](std::uint16_t bucket_size, std::uint16_t evict_every) {
      VolumeParams other = best;
      other.bucket_size = bucket_size;
      other.evict_every = evict_every;
      other.stash_slots = min_stash_slots(bucket_size, evict_every);
      return cost_in_seconds(other, height_for(expect / best.block_size, evict_every));
    };
    const double least = cost(best.bucket_size, best.evict_every);
    EXPECT_LE(least, cost(8, 8));
    EXPECT_LE(least, cost(16, 20));
    EXPECT_LE(least, cost(32, 46));
  }
}

// On a slow line between the servers, sending little matters more than reading little.
TEST(Choose, TheLinesDecideIfTheyAreSlow) {
  Wishes wishes{.kind = SchemeKind::mirror, .scheme = {1, 2}};
  const auto between = [](const VolumeParams& params) {
    return access_traffic(params, height_with(params, std::uint64_t{8} << 30)).between;
  };
  wishes.lines.between = 2e6;
  const VolumeParams slow = chosen(wishes);
  for (const auto& [bucket_size, evict_every] : {std::pair{8, 8}, {16, 20}, {32, 46}}) {
    VolumeParams other = slow;
    other.bucket_size = static_cast<std::uint16_t>(bucket_size);
    other.evict_every = static_cast<std::uint16_t>(evict_every);
    other.stash_slots = min_stash_slots(other.bucket_size, other.evict_every);
    EXPECT_LE(between(slow), between(other)) << bucket_size;
  }
  expect_words(why(wishes), "the servers send each other about");
  EXPECT_EQ(why(wishes).find("a photo"), std::string::npos);
  wishes.lines.up = 625e3;
  wishes.lines.down = 3.6e6;
  expect_words(why(wishes), "a photo of 3 MB is safe after about");
}

TEST(Choose, WhereALineDecidesAloneMachinesHaveAsLittleToDoAsTheyCan) {
  Wishes wishes{.kind = SchemeKind::mirror, .scheme = {1, 2}, .block_size = 64 << 10};
  const VolumeParams fast = chosen(wishes);
  wishes.lines = {.up = 1e5, .down = 1e6, .between = 1e12};
  EXPECT_EQ(chosen(wishes), fast);
}

TEST(Choose, TheEvictorFollowsFromServersAndPrivacy) {
  EXPECT_EQ(chosen({.scheme = {1, 3}}).evictor, Evictor::shuffle);
  EXPECT_EQ(chosen({.scheme = {2, 5}}).evictor, Evictor::matrix);
  const Wishes strict{.scheme = {1, 3}, .privacy = Privacy::information_theoretic};
  EXPECT_EQ(chosen(strict).evictor, Evictor::matrix);
  expect_words(why(strict), "shuffle needs three servers and computational privacy");
}

TEST(Choose, AMirrorHasItsOwnEvictorAndSaysWhatItIs) {
  const Wishes two{.kind = SchemeKind::mirror, .scheme = {1, 2}};
  EXPECT_EQ(chosen(two).evictor, Evictor::selection);
  expect_words(why(two), "Mirror on 2 servers: any 1 of them may be curious, lie");
  const Wishes six{.kind = SchemeKind::mirror, .scheme = {2, 6}};
  EXPECT_EQ(chosen(six).evictor, Evictor::selection);
}

// The figures of docs/protocol-mirror.md, for 40 GB of 128 KiB blocks.
TEST(Costs, OfAMirrorAreThoseOfItsPaths) {
  VolumeParams params = chosen({.kind = SchemeKind::mirror,
                                .scheme = {1, 2},
                                .block_size = 128u << 10,
                                .bucket_size = 16,
                                .evict_every = 20});
  EXPECT_NEAR(access_cost(params, 15).sent, 33.6 + 2, 0.1);
  params.scheme = {1, 3};
  EXPECT_NEAR(access_cost(params, 15).sent, 3 * 33.6 / 2 + 3, 0.2);
}

TEST(Choose, BlocksAreNoMoreThanMemoryHolds) {
  EXPECT_EQ(chosen({.scheme = {1, 3}}).block_size, 64u << 10);
  EXPECT_EQ(chosen({.scheme = {1, 3}, .expect = std::uint64_t{1} << 40}).block_size, 256u << 10);
  const Wishes huge{.scheme = {1, 3}, .expect = std::uint64_t{100} << 40};
  EXPECT_EQ(chosen(huge).block_size, 1u << 20);
  expect_words(why(huge), "3.9 GiB of this machine's memory for 104 million");
}

// A small change of a file transfers a whole block, so blocks are smaller where a line is slow.
TEST(Choose, BlocksAreSmallWhereLinesAreSlow) {
  const auto block_size = [](double up_and_down, std::uint64_t expect) {
    return chosen({.scheme = {1, 3}, .expect = expect, .lines = {up_and_down, up_and_down}})
        .block_size;
  };
  const std::uint64_t little = std::uint64_t{8} << 30, much = std::uint64_t{500} << 30;
  EXPECT_EQ(block_size(50 * kMegabit, little), 64u << 10);
  EXPECT_EQ(block_size(5 * kMegabit, little), 32u << 10);
  EXPECT_EQ(block_size(1 * kMegabit, little), 16u << 10);
  EXPECT_EQ(block_size(1 * kMegabit, much), 128u << 10) << "more blocks than memory holds";
  Wishes asked{.scheme = {1, 3}, .lines = {kMegabit, kMegabit}};
  expect_words(why(asked), "Blocks of 16 KiB: small, so that small changes are fast");
  asked.block_size = 64 << 10;
  EXPECT_EQ(chosen(asked).block_size, 64u << 10);
  asked.block_size.reset();
  asked.local = true;
  EXPECT_EQ(chosen(asked).block_size, 64u << 10);
}

TEST(Choose, OneNumberOfAPairIsEnough) {
  for (const std::uint16_t bucket_size : {8, 16, 24, 32}) {
    const VolumeParams params = chosen({.scheme = {1, 3}, .bucket_size = bucket_size});
    EXPECT_EQ(params.bucket_size, bucket_size);
    EXPECT_GT(min_stash_slots(bucket_size, params.evict_every), 0) << bucket_size;
  }
  for (const std::uint16_t evict_every : {1, 7, 20, 60}) {
    const VolumeParams params = chosen({.scheme = {1, 3}, .evict_every = evict_every});
    EXPECT_EQ(params.evict_every, evict_every);
    EXPECT_GT(min_stash_slots(params.bucket_size, evict_every), 0) << evict_every;
  }
}

TEST(Choose, LargeBucketsNeedNoStash) {
  for (const unsigned bucket_size : {64, 512, 4096})
    EXPECT_EQ(min_stash_slots(bucket_size, 10), bucket_size) << "one bucket, as for all";
}

TEST(Choose, WhatOverflowsIsRefused) {
  expect_words(why({.scheme = {1, 3}, .bucket_size = 2}), "--allow-overflow");
  expect_words(why({.scheme = {1, 3}, .bucket_size = 16, .evict_every = 46}),
               "--bucket-size 16 overflows too often with --evict-every 46");
  const VolumeParams allowed =
      chosen({.scheme = {1, 3}, .bucket_size = 16, .evict_every = 46, .allow_overflow = true});
  EXPECT_EQ(allowed.bucket_size, 16);
  EXPECT_EQ(allowed.evict_every, 46);
}

TEST(Choose, ItSaysWhatWasAskedAndWhatWasCompared) {
  const std::string free = why({.scheme = {1, 3}, .local = true});
  expect_words(free, "S3ORAM on 3 servers: any 1 of them may be curious");
  expect_words(free, "--scheme mirror would go on with any 1 of them away");
  expect_words(free, "Blocks of 64 KiB: the smallest");
  for (const auto* words : {"every 20 accesses: an access takes about 15.2 ms", "18.4 with 8 and 8",
                            "15.5 with 32 and 46"})
    expect_words(free, words);
  const std::string asked =
      why({.scheme = {1, 3}, .block_size = 4096, .bucket_size = 16, .evict_every = 20});
  expect_words(asked, "Blocks of 4 KiB: as asked");
  expect_words(asked, "Buckets of 16 slots, an eviction every 20 accesses: as asked");
}

// Measured by `du` on local vaults with this much data in one file (docs/parameters.md). init says
// what this predicts, which must not be less, nor much more.
TEST(Stores, TakeWhatIsPredicted) {
  struct Measured {
    std::uint64_t mebibytes, bytes;  // MiB of data; bytes of all three stores together
  };
  const VolumeParams params = chosen({.scheme = {1, 3}, .local = true});
  ASSERT_EQ(params.bucket_size, 16);
  ASSERT_EQ(params.evict_every, 20);
  for (const auto& [mebibytes, bytes] :
       {Measured{30, 524505088}, {300, 3365502976}, {1024, 13053743104}}) {
    const auto predicted =
        static_cast<double>(3 * store_bytes(params, height_with(params, mebibytes << 20)));
    EXPECT_GE(predicted, static_cast<double>(bytes)) << mebibytes;
    EXPECT_LE(predicted, 1.15 * static_cast<double>(bytes)) << mebibytes;
  }
  EXPECT_NEAR(stored_per_byte(params), 9.6, 0.1);
}

TEST(Stores, HoldWhatFitsAndNoMore) {
  const VolumeParams params = chosen({.scheme = {1, 3}, .local = true});
  for (const std::uint64_t disk : {std::uint64_t{1} << 30, std::uint64_t{80} << 30}) {
    const std::uint64_t data = data_that_fits(params, 3, disk);
    EXPECT_GT(data, 0u);
    EXPECT_LE(3 * store_bytes(params, height_with(params, data)), disk);
    EXPECT_GT(3 * store_bytes(params, height_with(params, data + params.block_size)), disk);
  }
  EXPECT_EQ(data_that_fits(params, 3, 1 << 20), 0u);
}

TEST(Stores, GrowByWholeLevels) {
  const VolumeParams params = chosen({.scheme = {1, 3}, .local = true});
  for (const unsigned height : {params.first_height + 0u, 6u, 14u}) {
    const auto stores = [&](unsigned at) { return 3 * store_bytes(params, at); };
    const auto added = [&](unsigned levels) {
      return (capacity(height + levels, params.evict_every) -
              capacity(height, params.evict_every)) *
             params.block_size;
    };
    const std::uint64_t level = stores(height + 1) - stores(height);
    EXPECT_EQ(growth_that_fits(params, 3, height, 0), 0u);
    EXPECT_EQ(growth_that_fits(params, 3, height, level - 1), 0u) << height;
    if (height <= 3) continue;
    EXPECT_EQ(growth_that_fits(params, 3, height, level), added(1)) << height;
    EXPECT_EQ(growth_that_fits(params, 3, height, stores(height + 2) - stores(height)), added(2));
  }
}

}  // namespace
}  // namespace s3oram
