// Tests paths, bucket numbers, eviction order and leaves of the tree.
#include "oramcore/oram/geometry.h"

#include <gtest/gtest.h>

#include <set>

namespace s3oram {
namespace {

TEST(Geometry, PathsRunFromTheRootAlongParents) {
  for (Leaf leaf = 0; leaf < 64; ++leaf) {
    EXPECT_EQ(bucket_on_path(leaf, 0), kRoot);
    for (unsigned level = 0; level < 6; ++level) {
      const BucketIndex bucket = bucket_on_path(leaf, level);
      EXPECT_EQ(level_of(bucket), level);
      const unsigned edge = leaf >> level & 1;
      EXPECT_EQ(bucket_on_path(leaf, level + 1), child_of(bucket, edge));
      EXPECT_EQ(sibling_of(child_of(bucket, edge)), child_of(bucket, 1 - edge));
    }
  }
}

TEST(Geometry, EveryBucketHasOneIndex) {
  std::set<BucketIndex> seen;
  for (unsigned level = 0; level <= 5; ++level)
    for (Leaf leaf = 0; leaf < (1u << level); ++leaf) seen.insert(bucket_on_path(leaf, level));
  EXPECT_EQ(seen.size(), bucket_count(5));
  EXPECT_EQ(*seen.rbegin(), bucket_count(5));
}

TEST(Geometry, EvictionPathsAreInReverseLexicographicOrder) {
  // Equation 6: read from the root, the edges of path e are the digits of e, lowest first.
  constexpr unsigned kHeight = 4;
  for (std::uint64_t eviction = 0; eviction < 32; ++eviction) {
    unsigned reversed = 0, edges = 0;
    for (unsigned digit = 0; digit < kHeight; ++digit)
      reversed |= (eviction >> digit & 1) << (kHeight - 1 - digit);
    for (unsigned level = 1; level <= kHeight; ++level) {
      const BucketIndex bucket = bucket_on_path(eviction, level);
      const BucketIndex parent = bucket_on_path(eviction, level - 1);
      edges = edges << 1 | (bucket == child_of(parent, 1) ? 1u : 0u);
    }
    EXPECT_EQ(edges, reversed) << eviction;
  }
}

TEST(Geometry, LeavesHaveFortyBits) {
  SystemRandom random;
  Leaf ones = 0;
  for (int i = 0; i < 1000; ++i) ones |= random_leaf(random);
  EXPECT_EQ(ones, (Leaf{1} << kLeafBits) - 1);
}

}  // namespace
}  // namespace s3oram
