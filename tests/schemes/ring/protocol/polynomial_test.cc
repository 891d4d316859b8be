// Buckets as polynomials: interpolated slots are found at their points, a row is the sum of the
// others, and the rows of random slots tell nothing about the points.
#include "oramcore/schemes/ring/protocol/polynomial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "oramcore/field/gf256.h"

namespace s3oram::ring {
namespace {

struct Table {
  Table(std::size_t rows, std::size_t length) : bytes(rows, Bytes(length)) {
    for (Bytes& row : bytes) {
      pointers.push_back(row.data());
      readable.push_back(row.data());
    }
  }
  std::vector<Bytes> bytes;
  std::vector<std::uint8_t*> pointers;
  std::vector<const std::uint8_t*> readable;
};

std::vector<Point> some_points(std::size_t count, std::mt19937_64& random) {
  std::vector<Point> all(kPoints);
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(count);
  return all;
}

TEST(Polynomial, HasTheSlotsAtTheirPoints) {
  std::mt19937_64 random(1);
  for (const std::size_t size : {1u, 2u, 3u, 32u, 128u})
    for (const std::size_t length : {1u, 31u, 700u}) {
      const auto points = some_points(size, random);
      Table slots(size, length), rows(size, length), values(size, length);
      for (Bytes& slot : slots.bytes)
        for (auto& byte : slot) byte = static_cast<std::uint8_t>(random());
      interpolate(points, slots.readable, rows.pointers, length);
      evaluate(rows.readable, points, values.pointers, length);
      EXPECT_EQ(values.bytes, slots.bytes) << size << " rows of " << length;
    }
}

TEST(Polynomial, IsEvaluatedAsItsDefinitionSays) {
  std::mt19937_64 random(2);
  Table rows(5, 3), value(1, 3);
  for (Bytes& row : rows.bytes)
    for (auto& byte : row) byte = static_cast<std::uint8_t>(random());
  for (unsigned x = 0; x < kPoints; ++x) {
    const Point point = static_cast<Point>(x);
    evaluate(rows.readable, {&point, 1}, value.pointers, 3);
    const Bytes weights = powers(point, 5);
    for (std::size_t at = 0; at < 3; ++at) {
      std::uint8_t sum = 0, power = 1;
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(weights[i], power);
        sum ^= gf::mul(power, rows.bytes[i][at]);
        power = gf::mul(power, point);
      }
      ASSERT_EQ(value.bytes[0][at], sum);
    }
  }
}

// GF(4) is contained in GF(2^8), so a bucket of two rows over it, with four points, can be
// enumerated with the real code: every pair of slots and every secret order of the points.
// Whichever slots are real, a server that sees the rows and then, in order, the points that are
// asked for has each view equally often; real slots and dummies look alike.
TEST(Polynomial, RowsAndPointsTellNothingOfWhatIsReal) {
  std::vector<std::uint8_t> field{0, 1};
  for (unsigned x = 2; x < 256; ++x) {
    const auto each = static_cast<std::uint8_t>(x);
    if (gf::mul(gf::mul(each, each), gf::mul(each, each)) == each) field.push_back(each);
  }
  ASSERT_EQ(field.size(), 4u);

  // The places in the bucket's secret order that three accesses ask for; 0 and 1 are slots.
  const std::vector<std::vector<unsigned>> accesses{{2, 3, 0}, {0, 2, 3}, {1, 2, 0}, {0, 1, 2}};
  using View = std::vector<std::uint8_t>;
  std::vector<std::map<View, unsigned>> seen;
  for (const auto& asked : accesses) {
    std::map<View, unsigned> views;
    std::vector<unsigned> order{0, 1, 2, 3};
    do {
      const std::vector<Point> points{field[order[0]], field[order[1]]};
      for (const std::uint8_t first : field)
        for (const std::uint8_t second : field) {
          Table slots(2, 1), rows(2, 1);
          slots.bytes[0][0] = first;
          slots.bytes[1][0] = second;
          interpolate(points, slots.readable, rows.pointers, 1);
          View view{rows.bytes[0][0], rows.bytes[1][0]};
          for (const unsigned place : asked) view.push_back(field[order[place]]);
          ++views[view];
        }
    } while (std::next_permutation(order.begin(), order.end()));
    seen.push_back(views);
  }
  // 4^2 rows and 4·3·2 orders of three points, each of which occurs once.
  ASSERT_EQ(seen[0].size(), 16u * 24u);
  for (const auto& [view, count] : seen[0]) EXPECT_EQ(count, 1u);
  for (const auto& views : seen) EXPECT_EQ(views, seen[0]);
}

TEST(AskedPoints, AreCountedOnce) {
  AskedPoints asked;
  EXPECT_EQ(asked.count(), 0u);
  for (const unsigned point : {0u, 7u, 8u, 255u, 7u}) asked.add(static_cast<Point>(point));
  EXPECT_EQ(asked.count(), 4u);
  EXPECT_TRUE(asked.has(255));
  EXPECT_FALSE(asked.has(254));
}

}  // namespace
}  // namespace s3oram::ring
