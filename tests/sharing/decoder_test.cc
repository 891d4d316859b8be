// Compares the decoder with brute force, which finds the nearest word by trying all.
#include "oramcore/sharing/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sharing/parties.h"

namespace s3oram {
namespace {

using Indices = std::vector<std::size_t>;

std::vector<ByteSpan> spans(const std::vector<Bytes>& shares) {
  return {shares.begin(), shares.end()};
}

/// Returns the values at `points` of a random polynomial of degree below `enough`.
Bytes random_word(std::size_t enough, ByteSpan points, Random& random) {
  const Bytes first = random_bytes(enough, random);
  std::vector<ByteSpan> values;
  for (const std::uint8_t& each : first) values.emplace_back(&each, 1);
  Bytes word;
  for (const std::uint8_t at : points)
    word.push_back(recover_at(at, points.first(enough), values).front());
  return word;
}

/// Interpolates each choice of `enough` values, and takes the polynomial on which most values lie.
std::optional<Indices> by_brute_force(std::size_t enough, ByteSpan points, ByteSpan word) {
  std::optional<Indices> best;
  for (const Bytes& chosen : choices(points.size(), enough)) {
    Bytes at;
    std::vector<ByteSpan> values;
    for (const std::uint8_t i : chosen) {
      at.push_back(points[i - 1u]);
      values.push_back(word.subspan(i - 1u, 1));
    }
    Indices wrong;
    for (std::size_t i = 0; i < word.size(); ++i)
      if (recover_at(points[i], at, values).front() != word[i]) wrong.push_back(i);
    if (2 * wrong.size() + enough <= word.size()) best = wrong;  // at most one is like that
  }
  return best;
}

// Every number of servers up to seven, every degree, and every set of wrong values, including sets
// too large to correct.
TEST(Decoder, FindsWhatBruteForceFindsForEverySetOfErrors) {
  Prg random(Seed{}, as_bytes("decoder"));
  unsigned corrected = 0, refused = 0, other = 0;
  for (std::size_t n = 1; n <= 7; ++n)
    for (std::size_t enough = 1; enough <= n; ++enough)
      for (unsigned errors = 0; errors < 1u << n; ++errors)
        for (unsigned again = 0; again < 2; ++again) {
          Bytes points = points_from(1, n);
          if (again == 1)
            for (std::uint8_t& point : points) point = static_cast<std::uint8_t>(251 - 17 * point);
          Bytes word = random_word(enough, points, random);
          Indices made;
          for (std::size_t i = 0; i < n; ++i)
            if (errors >> i & 1) {
              word[i] ^= static_cast<std::uint8_t>(1 + random.u64() % 255);
              made.push_back(i);
            }
          const auto found = wrong_values(enough, points, word);
          ASSERT_EQ(found, by_brute_force(enough, points, word)) << n << " " << enough;
          if (2 * made.size() + enough <= n) {
            ASSERT_EQ(found, made);
          }
          ++(!found ? refused : *found == made ? corrected : other);
        }
  EXPECT_GT(corrected, 0u);
  EXPECT_GT(refused, 0u);
  EXPECT_GT(other, 0u);
}

TEST(Decoder, FindsEveryErrorInOneOfFourShares) {
  Prg random(Seed{}, as_bytes("decoder"));
  const Bytes points = points_from(1, 4);
  const Bytes word = random_word(2, points, random);
  for (std::size_t at = 0; at < 4; ++at)
    for (unsigned error = 1; error < 256; ++error) {
      Bytes wrong = word;
      wrong[at] ^= static_cast<std::uint8_t>(error);
      ASSERT_EQ(wrong_values(2, points, wrong), Indices{at});
    }
}

class WrongShares : public testing::TestWithParam<Scheme> {
 protected:
  const Scheme scheme_ = GetParam();
  const std::size_t enough_ = scheme_.threshold + 1u;
  const Bytes points_ = points_from(1, scheme_.servers);
  Prg random_{Seed{}, as_bytes("wrong shares")};
};

// Each server that lies does so in a place of its own, in all places, or in a few.
TEST_P(WrongShares, AreFoundWhereverTheyAreWrong) {
  constexpr std::size_t kSize = 3000;
  const std::size_t most = (scheme_.servers - enough_) / 2;
  for (unsigned set = 0; set < 1u << scheme_.servers; ++set) {
    Indices liars;
    for (std::size_t i = 0; i < scheme_.servers; ++i)
      if (set >> i & 1) liars.push_back(i);
    if (liars.size() > most) continue;
    for (unsigned how = 0; how < 3; ++how) {
      auto shares = create_shares(scheme_, random_bytes(kSize, random_), random_);
      for (const std::size_t liar : liars)
        for (std::size_t i = 0; i < kSize; ++i)
          if (how == 0 ? i == 17 * liar : how == 1 || random_.u64() % 50 == 0)
            shares[liar][i] ^= static_cast<std::uint8_t>(1 + random_.u64() % 255);
      ASSERT_EQ(wrong_shares(enough_, points_, spans(shares), most), liars);
    }
  }
}

// Together the wrong shares could make it name another server. Its contract says so, and callers
// allow for that.
TEST_P(WrongShares, AreNoneOrOthersIfTooManyAreWrong) {
  const std::size_t most = (scheme_.servers - enough_) / 2;
  auto shares = create_shares(scheme_, random_bytes(100, random_), random_);
  for (std::size_t i = 0; i <= most; ++i) random_.fill(shares[i]);
  const auto found = wrong_shares(enough_, points_, spans(shares), most);
  EXPECT_LE(found.value_or(Indices()).size(), most);
}

TEST_P(WrongShares, AreNoneOfNothing) {
  const auto shares = create_shares(scheme_, {}, random_);
  EXPECT_EQ(wrong_shares(enough_, points_, spans(shares), 0), Indices{});
}

INSTANTIATE_TEST_SUITE_P(Schemes, WrongShares,
                         testing::Values(Scheme{1, 3}, Scheme{1, 4}, Scheme{1, 5}, Scheme{1, 6},
                                         Scheme{2, 5}, Scheme{2, 7}),
                         [](const auto& test) {
                           return "t" + std::to_string(test.param.threshold) + "l" +
                                  std::to_string(test.param.servers);
                         });

}  // namespace
}  // namespace s3oram
