// Tests that permutations are correct, uniform, and the same for a seed on every machine.
#include "oramcore/protocol/permutation.h"

#include <gtest/gtest.h>

#include <map>

namespace s3oram {
namespace {

Prg stream(std::uint8_t tag) {
  Seed seed{};
  seed[0] = tag;
  return Prg(seed, as_bytes("permutation test"));
}

/// Pearson's chi-square for `cells` equally likely outcomes.
template <class Counts>
double chi_square(const Counts& counts, std::size_t cells, double total) {
  const double wanted = total / static_cast<double>(cells);
  double chi = (static_cast<double>(cells) - static_cast<double>(counts.size())) * wanted;
  for (const auto& [cell, n] : counts) chi += (n - wanted) * (n - wanted) / wanted;
  return chi;
}

TEST(Permutation, IsKnownFromWhatIsNone) {
  EXPECT_TRUE(is_permutation({}));
  EXPECT_TRUE(is_permutation({2, 0, 1}));
  EXPECT_FALSE(is_permutation({2, 0, 2}));
  EXPECT_FALSE(is_permutation({0, 3, 1}));
  EXPECT_FALSE(is_permutation({0xffffffff}));
}

TEST(Permutation, InverseAndThen) {
  EXPECT_EQ(inverse({2, 0, 1}), (Permutation{1, 2, 0}));
  EXPECT_EQ(then({2, 0, 1}, {1, 2, 0}), (Permutation{0, 1, 2}));
  EXPECT_EQ(then({1, 0, 2}, {0, 2, 1}), (Permutation{2, 0, 1})) << "the first one first";
  Prg random = stream(1);
  for (const std::size_t size : {1u, 2u, 7u, 100u, 361u}) {
    const Permutation a = random_permutation(size, random), b = random_permutation(size, random);
    EXPECT_TRUE(is_permutation(a));
    EXPECT_EQ(then(then(a, b), inverse(b)), a);
    EXPECT_EQ(inverse(then(a, b)), then(inverse(b), inverse(a)));
  }
}

TEST(Permutation, AllPermutationsOfFourAreEquallyLikely) {
  constexpr int kDraws = 48000;
  Prg random = stream(2);
  std::map<Permutation, double> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[random_permutation(4, random)];
  EXPECT_EQ(counts.size(), 24u);
  EXPECT_LT(chi_square(counts, 24, kDraws), 49.7) << "one in a thousand, of 23 degrees of freedom";
}

TEST(Permutation, EverySlotGoesEverywhereAlike) {
  constexpr std::size_t kSize = 50;
  constexpr int kDraws = 20000;
  Prg random = stream(3);
  std::map<std::pair<std::size_t, std::uint32_t>, double> counts;
  for (int i = 0; i < kDraws; ++i) {
    const Permutation to = random_permutation(kSize, random);
    for (std::size_t from = 0; from < kSize; ++from) ++counts[{from, to[from]}];
  }
  // 49 * 49 degrees of freedom: mean 2401, standard deviation 69.
  EXPECT_LT(chi_square(counts, kSize * kSize, kSize * kDraws), 2401 + 5 * 69.3);
}

// Servers and client draw the same permutation from a seed, whatever their versions.
TEST(Permutation, IsPinnedForASeed) {
  Prg random = stream(4);
  EXPECT_EQ(random_permutation(10, random), (Permutation{1, 9, 7, 6, 4, 5, 3, 0, 8, 2}));
  EXPECT_EQ(random_permutation(5, random), (Permutation{2, 4, 1, 3, 0}));
}

}  // namespace
}  // namespace s3oram
