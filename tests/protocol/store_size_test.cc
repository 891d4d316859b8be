// The size of a store.
#include "oramcore/protocol/store_size.h"

#include <gtest/gtest.h>

#include "oramcore/protocol/sizing.h"

namespace s3oram {
namespace {

TEST(StoreSize, HasTheTreeAndThePathsOfTwoEvictions) {
  VolumeParams params{.scheme = {1, 3}, .block_size = 4096, .bucket_size = 4, .evict_every = 3};
  params.evictor = Evictor::shuffle;
  params.stash_slots = 8;
  EXPECT_EQ(bucket_versions_needed(params, 1), 4u + 2 + 2 * (2 + 2));
  EXPECT_EQ(bucket_versions_needed(params, 5), 64u + 2 + 2 * (6 + 2));
  params.evictor = Evictor::matrix;
  EXPECT_EQ(bucket_versions_needed(params, 5), 48u + 2 + 2 * (6 + 2));
}

TEST(StoreSize, CountsSlotsAndWhatIsKeptBack) {
  const auto choice = choose_params({.scheme = {1, 3}, .local = true});
  ASSERT_TRUE(choice);
  const VolumeParams& params = choice->params;
  const std::uint64_t slots =
      bucket_versions_needed(params, 3) * params.bucket_size + params.root_buffer_slots();
  EXPECT_GE(store_bytes(params, 3), slots * params.slot_size() + kServerBallast);
  EXPECT_LE(store_bytes(params, 3), slots * params.slot_size() + kServerBallast + (2 << 20));
}

}  // namespace
}  // namespace s3oram
