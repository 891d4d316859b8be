// Compares the statistics of a record with tables, and with samples that are known to differ.
#include "cli/statistics.h"

#include <gtest/gtest.h>

#include <random>

namespace s3oram {
namespace {

TEST(Statistics, ChiSquareAsInTables) {
  EXPECT_NEAR(chi_square_tail(3.841458821, 1), 0.05, 1e-9);
  EXPECT_NEAR(chi_square_tail(9.487729037, 4), 0.05, 1e-9);
  EXPECT_NEAR(chi_square_tail(63.69073976, 40), 0.01, 1e-9);
  EXPECT_NEAR(chi_square_tail(255, 255), 0.4883, 1e-4);
  EXPECT_NEAR(chi_square_tail(10, 2), std::exp(-5.0), 1e-12);
  EXPECT_EQ(chi_square_tail(0, 3), 1);
  EXPECT_LT(chi_square_tail(5000, 10), 1e-300);
}

TEST(Statistics, EvenCountsAreUniformAndUnevenOnesAreNot) {
  const std::vector<std::uint64_t> even(64, 10);
  EXPECT_EQ(uniform_p(even), 1);
  std::vector<std::uint64_t> uneven(64, 0);
  uneven[7] = 640;
  EXPECT_LT(uniform_p(uneven), 1e-300);
  EXPECT_EQ(uniform_p({}), 1);
}

TEST(Statistics, SamplesOfOneSourceLookTheSame) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> anywhere(0, 1);
  unsigned small = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<double> a(1000), b(700);
    for (double& each : a) each = anywhere(random);
    for (double& each : b) each = anywhere(random);
    small += same_p(binned(a, 64), binned(b, 64)) < 0.05 ? 1 : 0;
  }
  // One in twenty: 20 of 400, and a standard deviation of 4.4.
  EXPECT_GT(small, 4u);
  EXPECT_LT(small, 40u);
}

TEST(Statistics, SamplesOfTwoSourcesDoNot) {
  const std::vector<double> one(500, 0.25);
  std::vector<double> all;
  for (int i = 0; i < 500; ++i) all.push_back(i / 500.0);
  EXPECT_LT(same_p(binned(one, 64), binned(all, 64)), 1e-100);
}

TEST(Statistics, BinsAndRepeats) {
  const std::vector<double> positions{0, 0.49, 0.5, 0.5, 0.999999};
  EXPECT_EQ(binned(positions, 2), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_DOUBLE_EQ(repeated_part(positions), 0.25);
  EXPECT_EQ(repeated_part(std::vector<double>{1}), 0);
}

}  // namespace
}  // namespace s3oram
