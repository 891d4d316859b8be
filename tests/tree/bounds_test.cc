#include "oramcore/tree/bounds.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace s3oram
