// Tags of rows: the sum that the server must return with P(x) can be computed from them, and
// nothing else passes.
#include "oramcore/schemes/ring/client/row_tags.h"

#include <gtest/gtest.h>

#include <random>

#include "oramcore/field/gf256.h"

namespace s3oram::ring {
namespace {

Seed key(std::uint8_t tag) {
  Seed seed;
  seed.fill(tag);
  return seed;
}

class TaggedRows : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::size_t kRows = 5;
  static constexpr BucketIndex kBucket = 37;
  static constexpr VersionStamp kStamp = 0x1122334455667788;

  void SetUp() override {
    std::mt19937_64 random(GetParam());
    for (Bytes& row : rows) {
      row.resize(GetParam() + 16);
      for (auto& byte : row) byte = static_cast<std::uint8_t>(random());
      pointers.push_back(row.data());
      readable.push_back(row.data());
    }
    tags.put(kBucket, kStamp, pointers);
  }
  Bytes answer(Point x) const {
    Bytes sum(GetParam() + 16);
    gf::inner_product(powers(x, kRows), readable, sum);
    return sum;
  }

  RowTags tags{key(1), GetParam()};
  std::array<Bytes, kRows> rows;
  std::vector<std::uint8_t*> pointers;
  std::vector<const std::uint8_t*> readable;
};
INSTANTIATE_TEST_SUITE_P(Sizes, TaggedRows, testing::Values(16, 128, 592, 4176));

TEST_P(TaggedRows, TheMapIsLinearOverTheField) {
  const ByteSpan a = ByteSpan(rows[0]).first(GetParam()), b = ByteSpan(rows[1]).first(GetParam());
  Bytes sum(GetParam());
  gf::multiply_add(7, a, sum);
  gf::multiply_add(200, b, sum);
  Tag expected{};
  gf::multiply_add(7, tags.map(a), expected);
  gf::multiply_add(200, tags.map(b), expected);
  EXPECT_EQ(tags.map(sum), expected);
}

TEST_P(TaggedRows, EveryPointFits) {
  for (unsigned x = 0; x < kPoints; ++x) {
    const Point point = static_cast<Point>(x);
    EXPECT_TRUE(tags.fits(kBucket, kStamp, point, kRows, answer(point)));
  }
  EXPECT_TRUE(tags.fit(kBucket, kStamp, readable));
}

TEST_P(TaggedRows, NothingElseFits) {
  const Bytes right = answer(9);
  EXPECT_FALSE(tags.fits(kBucket, kStamp, 10, kRows, right)) << "another point";
  EXPECT_FALSE(tags.fits(kBucket + 1, kStamp, 9, kRows, right)) << "another bucket";
  EXPECT_FALSE(tags.fits(kBucket, kStamp + 1, 9, kRows, right)) << "another version";
  EXPECT_FALSE(tags.fits(kBucket, kStamp, 9, kRows, answer(10))) << "another point's answer";
  EXPECT_FALSE(tags.fits(kBucket, kStamp, 9, kRows, ByteSpan(right).first(right.size() - 1)));
  EXPECT_FALSE((RowTags(key(2), GetParam()).fits(kBucket, kStamp, 9, kRows, right)));
  for (std::size_t at = 0; at < right.size(); at += 1 + right.size() / 50)
    for (const std::uint8_t flip : {1, 0x80, 0xff}) {
      Bytes wrong = right;
      wrong[at] ^= flip;
      EXPECT_FALSE(tags.fits(kBucket, kStamp, 9, kRows, wrong)) << at;
    }
  EXPECT_FALSE(tags.fits(kBucket, kStamp, 9, kRows, Bytes(right.size()))) << "zeros";
}

TEST_P(TaggedRows, ARowOfAnotherPlaceDoesNotFit) {
  std::swap(readable[1], readable[2]);
  EXPECT_FALSE(tags.fit(kBucket, kStamp, readable));
  std::swap(readable[1], readable[2]);
  rows[4][GetParam() / 2] ^= 4;
  EXPECT_FALSE(tags.fit(kBucket, kStamp, readable));
}

// The sum of a row and its tag over all rows is what a server could swap in for x = 1. If masks
// were used twice, a server would learn it from two versions that shift it by the same.
TEST_P(TaggedRows, TagsOfEqualRowsDiffer) {
  std::array<Bytes, 2> same{rows[0], rows[0]};
  std::vector<std::uint8_t*> both{same[0].data(), same[1].data()};
  tags.put(kBucket, kStamp, both);
  EXPECT_NE(same[0], same[1]);
  Bytes before = same[0];
  tags.put(kBucket, kStamp + 1, both);
  EXPECT_NE(same[0], before);
}

TEST(Points, AreASecretOrderOfAll) {
  const Points points(key(3), 5, 77), again(key(3), 5, 77), later(key(3), 5, 78),
      beside(key(3), 6, 77);
  AskedPoints all;
  unsigned moved = 0, differ = 0;
  for (unsigned i = 0; i < 32; ++i) {
    all.add(points.of_slot(i));
    EXPECT_EQ(points.of_slot(i), again.of_slot(i));
    moved += points.of_slot(i) != later.of_slot(i);
    differ += points.of_slot(i) != beside.of_slot(i);
  }
  for (unsigned touches = 0; touches < 224; ++touches) all.add(points.of_dummy(32, touches));
  EXPECT_EQ(all.count(), kPoints);
  EXPECT_GT(moved, 25u);
  EXPECT_GT(differ, 25u);
}

}  // namespace
}  // namespace s3oram::ring
