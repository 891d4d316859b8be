// Tests the bounds on bucket and stash sizes against their formulas and published values.
#include "oramcore/protocol/bounds.h"

#include <gtest/gtest.h>

#include <cmath>

namespace s3oram {
namespace {

TEST(Bounds, AreTheTailOfThePoissonDistribution) {
  EXPECT_EQ(min_bucket_size(16), 72);
  EXPECT_EQ(min_bucket_size(20), 81);
  EXPECT_EQ(min_bucket_size(32), 105);
  EXPECT_EQ(min_bucket_size(64), 162);
  EXPECT_EQ(min_bucket_size(128), 260);
  EXPECT_EQ(min_bucket_size(178), 331);
}

TEST(Bounds, GrowWithTheSecurityLevel) {
  EXPECT_LT(min_bucket_size(64, 20), min_bucket_size(64, 40));
  EXPECT_LT(min_bucket_size(64, 40), min_bucket_size(64, 80));
}

TEST(Bounds, OfTheStashPartAreARootBucketAndRingOramsTable) {
  EXPECT_EQ(min_stash_slots(16, 20), 96);   // 16 + 65
  EXPECT_EQ(min_stash_slots(8, 8), 56);     // 8 + 41
  EXPECT_EQ(min_stash_slots(32, 46), 160);  // 32 + 113
}

TEST(Bounds, OfTheStashPartFollowFromLemma1Elsewhere) {
  for (const auto& [z, a] : {std::pair{16u, 16u}, {16u, 20u}, {8u, 6u}, {64u, 100u}, {4u, 3u}}) {
    const unsigned slots = min_stash_slots(z, a, 60);
    ASSERT_GT(slots, z);
    EXPECT_EQ(slots % z, 0u) << "whole buckets";
    // The lemma's sum, term by term: this size is enough for 60 bits, and one bucket less is not.
    const auto exceeds = [z = z, a = a](double stash) {
      const double q = z * std::log(2.0 * z / a) + a / 2.0 - z - std::log(4.0);
      double sum = 0;
      for (int n = 1; n < 100000; ++n) sum += std::exp(-q * n);
      return sum * std::pow(a / (2.0 * z), stash);
    };
    EXPECT_LE(exceeds(slots - z), std::exp2(-60)) << z << " " << a;
    EXPECT_GT(exceeds(slots - 2.0 * z), std::exp2(-60)) << z << " " << a;
  }
  EXPECT_LT(min_stash_slots(8, 6, 20), min_stash_slots(8, 6, 40));
}

TEST(Bounds, SomeSizesHaveNone) {
  EXPECT_EQ(min_stash_slots(4, 8), 0);
  EXPECT_EQ(min_stash_slots(16, 21), 0) << "the lemma says nothing about them";
  EXPECT_EQ(min_stash_slots(1, 1), 0);
  EXPECT_EQ(min_stash_slots(16, 40), 0);
}

}  // namespace
}  // namespace s3oram
