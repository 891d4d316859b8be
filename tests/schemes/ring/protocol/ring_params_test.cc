// The numbers of a ring volume.
#include "oramcore/schemes/ring/protocol/ring_params.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oramcore/protocol/sizing.h"
#include "oramcore/protocol/store_size.h"
#include "oramcore/schemes/ring/protocol/ring_messages.h"

namespace s3oram::ring {
namespace {

const VolumeParams kHome{.scheme = {0, 1},
                         .block_size = 128 << 10,
                         .bucket_size = 32,
                         .evict_every = 46,
                         .evictor = Evictor::polynomial,
                         .privacy = Privacy::computational,
                         .first_height = 5,
                         .top_levels = 5};

TEST(RingParams, AreChecked) {
  EXPECT_TRUE(check_params(kHome));
  const auto refused = [](auto change, const char* named) {
    VolumeParams params = kHome;
    change(params);
    const Status status = check_params(params);
    ASSERT_FALSE(status) << named;
    EXPECT_EQ(status.error().code, Errc::usage);
    EXPECT_NE(status.error().message.find(named), std::string::npos) << status.error().message;
  };
  refused([](VolumeParams& p) { p.block_size = 511; }, "block size");
  refused([](VolumeParams& p) { p.block_size = (1 << 20) + 1; }, "blocks");
  refused([](VolumeParams& p) { p.bucket_size = 0; }, "bucket");
  refused([](VolumeParams& p) { p.bucket_size = 129; }, "rows");
  refused([](VolumeParams& p) { p.evict_every = 0; }, "evictions");
  refused([](VolumeParams& p) { p.top_levels = 0; }, "levels");
  refused([](VolumeParams& p) { p.top_levels = 17; }, "levels");
  refused([](VolumeParams& p) { p.first_height = 4; }, "height");
  refused([](VolumeParams& p) { p.scheme = {1, 3}; }, "server");
  refused([](VolumeParams& p) { p.stash_slots = 32; }, "stash");
  refused([](VolumeParams& p) { p.privacy = Privacy::information_theoretic; }, "seeds");
  refused([](VolumeParams& p) { p.top_levels = p.first_height = 14; }, "log");
}

TEST(RingParams, TheFirstDifferenceIsNamed) {
  VolumeParams other = kHome;
  EXPECT_EQ(difference(other, kHome), "");
  other.top_levels = 6;
  EXPECT_EQ(difference(other, kHome), "top_levels 6 instead of 5");
}

TEST(RingParams, TheTopIsTheLargestThatFits) {
  for (const std::uint64_t bytes : {256ull << 20, 512ull << 20, 3ull << 30}) {
    VolumeParams params = kHome;
    params.top_levels = static_cast<std::uint8_t>(top_levels_for(kHome, bytes));
    EXPECT_LE(cache_bytes(params), bytes);
    ++params.top_levels;
    EXPECT_GT(cache_bytes(params), bytes);
  }
  EXPECT_EQ(top_levels_for(kHome, 256 << 20), 5u);
  EXPECT_EQ(top_levels_for(kHome, 512 << 20), 6u);
  EXPECT_EQ(top_levels_for(kHome, 1 << 20), 0u);
}

TEST(RingParams, ABlockIsLoggedAgainInTimeWhateverIsUnderWay) {
  VolumeParams volume = kHome;
  for (volume.top_levels = 1; volume.top_levels <= kMostTopLevels; ++volume.top_levels) {
    const Params params(volume);
    const unsigned under_way = (params.most_evictions_due() + 1) * params.evict_every;
    EXPECT_GE(params.log_again_within(), under_way + params.evict_every);
    EXPECT_LT(params.log_again_within(), params.log_slots - under_way);
  }
}

TEST(RingParams, TheLargestAnswerFitsIntoAMessage) {
  VolumeParams volume = kHome;
  volume.top_levels = 1;
  const Params params(volume);
  const Bytes row(params.row_size);
  RetrieveAnswer path;
  path.values.assign(kMaxHeight, row);
  EXPECT_LE(encode(path).size(), largest_message(params));
  ReadLogAnswer log;
  log.slots.assign(rows_in_message(params), {1, 2, ByteSpan(row).first(params.slot_size)});
  EXPECT_LE(encode(log).size(), largest_message(params));
}

// The figures of docs/parameters.md, for 40 GB of 128 KiB blocks.
TEST(RingParams, AnAccessCostsWhatIsPromised) {
  VolumeParams params = kHome;
  params.top_levels = 6;
  const unsigned height = height_for(params, (40ull << 30) / params.block_size);
  EXPECT_EQ(height, 14u);
  const AccessCost cost = ring::access_cost(params, height);
  EXPECT_LE(cost.up, 9);
  EXPECT_LE(cost.down, 19);
  EXPECT_LE(cost.read_down, 11);
}

// If there are more than Z blocks for each leaf, blocks fill the top, and all turns log them again.
TEST(RingParams, AFullTreeHasRoomForItsBlocks) {
  VolumeParams params = kHome;
  EXPECT_EQ(params.filling(), params.evict_every);
  params.bucket_size = 1;
  params.evict_every = 4;
  EXPECT_EQ(capacity(10, params.filling()), 1u << 10);
  EXPECT_EQ(height_for(params, 1u << 10), 10u);
}

// What init says of the disk follows the tree, which grows earlier if A is more than 2Z.
TEST(RingParams, DataIsPredictedByTheRoomOfTheTree) {
  VolumeParams params = kHome;
  params.bucket_size = 8;
  for (const unsigned evict_every : {11u, 16u, 46u}) {
    params.evict_every = static_cast<std::uint16_t>(evict_every);
    const unsigned filling = std::min(evict_every, 16u);
    const std::uint64_t blocks = capacity(10, filling) - params.root_buffer_slots();
    const std::uint64_t data = blocks * params.block_size;
    EXPECT_EQ(height_with(params, data), 10u) << evict_every;
    EXPECT_EQ(height_with(params, data + 1), 11u) << evict_every;
    EXPECT_EQ(data_that_fits(params, 1, store_bytes(params, 10)), data) << evict_every;
    EXPECT_NEAR(stored_per_byte(params), 2.0 * (params.bucket_size + 1) * 2 / filling, 0.1)
        << evict_every;
  }
}

TEST(RingParams, TheStoreIsThreeTimesTheDataAndTheLog) {
  VolumeParams params = kHome;
  for (const unsigned height : {10u, 14u}) {
    const double data = static_cast<double>(capacity(height, params.evict_every)) *
                        static_cast<double>(params.block_size);
    const double log = params.log_slots() * static_cast<double>(params.stored_slot());
    EXPECT_LE(static_cast<double>(store_bytes(params, height)) - log, 3.0 * data) << height;
  }
}

// A touch is an access through the bucket. Between two evictions of a bucket at level h there are
// A·2^h accesses, and each goes through it with probability 2^-h.
TEST(RingParams, DummiesLastUntilTheNextEviction) {
  const auto log2_tail = [](double mean, unsigned above) {
    double sum = 0, term = 1;
    for (unsigned k = above + 1; k < above + 2000; ++k) {
      sum += term;
      term *= mean / (k + 1);
    }
    return (-mean + (above + 1) * std::log(mean) - std::lgamma(above + 2.0) + std::log(sum)) /
           std::log(2.0);
  };
  const unsigned dummies = Params(kHome).dummies();
  EXPECT_LT(log2_tail(kHome.evict_every, dummies), -255);
  EXPECT_LT(log2_tail(2.0 * kHome.evict_every, dummies), -97);  // a whole sweep behind
}

}  // namespace
}  // namespace s3oram::ring
