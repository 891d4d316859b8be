// The check of a shuffle's hops in a model of the three roles: honest runs pass, every lie is
// caught, and whether one is caught does not depend on the permutation.
#include "oramcore/schemes/s3oram/protocol/hop_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/hop_digest.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

constexpr std::size_t kWidth = 37;  // not whole words

using Rows = std::vector<Bytes>;

Bytes sum(std::initializer_list<std::pair<std::uint8_t, const Bytes*>> terms) {
  Bytes out(kWidth);
  for (const auto& [weight, row] : terms) gf::multiply_add(weight, *row, out);
  return out;
}
Bytes scaled(std::uint8_t weight, const Bytes& row) { return sum({{weight, &row}}); }
Bytes plus(const Bytes& a, const Bytes& b) { return sum({{1, &a}, {1, &b}}); }

std::uint8_t weight(std::uint8_t of, std::uint8_t beside) {
  return lagrange_at_zero(Bytes{of, beside})[0];
}

enum Hop { first_to_second, second_to_third, third_to_first, first_to_third };
using Lies = std::map<std::pair<Hop, std::size_t>, Bytes>;  // what is added to a row of a hop

struct Outcome {
  HopPlan plan;
  HopReports reports;
  Rows content, shares_1, shares_2, shares_3;  // new ones, of kept places
  HopVerdict verdict() const { return judge_hops(plan, reports); }
};

/// One shuffle in which the parties with points `x` play roles 1 to 3.
class Model {
 public:
  Model(std::uint64_t seed, std::size_t rows, std::size_t kept, Bytes points = {1, 2, 3})
      : seed_(Seed{static_cast<std::uint8_t>(seed), static_cast<std::uint8_t>(seed >> 8)}),
        rows_(rows),
        kept_(kept),
        x_(std::move(points)) {}

  Outcome run(const Lies& lies) {
    Prg random(seed_, as_view("model"));
    const auto rows = [&](std::size_t count) {
      Rows drawn(count, Bytes(kWidth));
      for (Bytes& row : drawn) random.fill(row);
      return drawn;
    };
    Outcome out;
    const Rows content = rows(rows_), slope = rows(rows_);
    Rows s1, s2, s3;
    for (std::size_t s = 0; s < rows_; ++s) {
      s1.push_back(sum({{1, &content[s]}, {x_[0], &slope[s]}}));
      s2.push_back(sum({{1, &content[s]}, {x_[1], &slope[s]}}));
      s3.push_back(sum({{1, &content[s]}, {x_[2], &slope[s]}}));
    }
    auto& [pi_1, pi_2, pi_3] = out.plan;
    pi_1 = random_permutation(rows_, random);
    pi_2 = random_permutation(rows_, random);
    pi_3 = random_permutation(rows_, random);
    const Rows g13 = rows(rows_), g21 = rows(rows_), g32 = rows(kept_), g12 = rows(kept_);
    const HopDigest c1(random, kWidth), c2(random, kWidth), c3(random, kWidth);
    const auto lied = [&](Hop hop, std::size_t at, Bytes row) {
      const auto lie = lies.find({hop, at});
      return lie == lies.end() ? row : plus(row, lie->second);
    };

    Rows m01(rows_), b2(rows_), m12(rows_), c_3(rows_);
    for (std::size_t s = 0; s < rows_; ++s) {
      const std::size_t p = pi_1[s];
      m01[p] = lied(first_to_second, p, plus(scaled(weight(x_[0], x_[1]), s1[s]), g13[p]));
      b2[p] = plus(scaled(weight(x_[1], x_[0]), s2[s]), m01[p]);
    }
    for (std::size_t p = 0; p < rows_; ++p) {
      const std::size_t q = pi_2[p];
      m12[q] = lied(second_to_third, q, plus(b2[p], g21[q]));
      c_3[q] = plus(m12[q], g13[p]);
    }
    const auto line = [&](std::uint8_t x, const Bytes& a, const Bytes& g) {
      const std::uint8_t part = gf::mul(x, gf::inverse(x_[1]));
      return sum({{static_cast<std::uint8_t>(1 ^ part), &a}, {part, &g}});
    };
    const Permutation from_3 = inverse(pi_3);
    Rows m31(kept_), m13(kept_);
    for (std::size_t r = 0; r < kept_; ++r) {
      const std::size_t q = from_3[rows_ - kept_ + r];
      m31[r] = lied(third_to_first, r, line(x_[0], c_3[q], g32[r]));
      m13[r] = lied(first_to_third, r, line(x_[2], g21[q], g12[r]));
      out.shares_1.push_back(plus(line(x_[0], g21[q], g12[r]), m31[r]));
      out.shares_2.push_back(plus(g32[r], g12[r]));
      out.shares_3.push_back(plus(line(x_[2], c_3[q], g32[r]), m13[r]));
    }
    out.content.resize(kept_);
    for (std::size_t s = 0; s < rows_; ++s)
      if (const std::size_t at = pi_3[pi_2[pi_1[s]]]; at >= rows_ - kept_)
        out.content[at - (rows_ - kept_)] = content[s];

    const auto digest = [](const HopDigest& key, const Bytes& row) {
      gf128::Sum total;
      key.add(row.data(), total);
      return gf128::reduce(total);
    };
    auto& [first, second, third] = out.reports;
    const std::uint8_t part_1 = gf::mul(x_[0], gf::inverse(x_[1])),
                       part_3 = gf::mul(x_[2], gf::inverse(x_[1]));
    const auto a1 = static_cast<std::uint8_t>(1 ^ part_1),
               a3 = static_cast<std::uint8_t>(1 ^ part_3);
    third.received_second.resize(rows_);
    for (std::size_t s = 0; s < rows_; ++s) {
      first.own.push_back(digest(c2, scaled(weight(x_[0], x_[2]), s1[s])));
      first.mask_second.push_back(digest(c2, g21[s]));
      first.mask_first.push_back(digest(c3, scaled(a1, g13[s])));
      second.received.push_back(digest(c1, plus(b2[pi_1[s]], scaled(weight(x_[1], x_[2]), s2[s]))));
      second.mask_second.push_back(digest(c1, scaled(a3, g21[s])));
      second.sent.push_back(digest(c3, scaled(a1, m12[s])));
      third.own.push_back(digest(c1, scaled(weight(x_[2], x_[1]), s3[s])));
      third.mask_first.push_back(digest(c1, g13[s]));
      third.received_second[s] = digest(c2, c_3[pi_2[s]]);
      third.own_again.push_back(digest(c2, scaled(weight(x_[2], x_[0]), s3[s])));
    }
    for (std::size_t r = 0; r < kept_; ++r) {
      first.received.push_back(digest(c3, m31[r]));
      second.line_of_1.push_back(digest(c1, scaled(part_3, g12[r])));
      second.line_of_3.push_back(digest(c3, scaled(part_1, g32[r])));
      third.received_first.push_back(digest(c1, m13[r]));
    }
    return out;
  }

 private:
  Seed seed_;
  std::size_t rows_, kept_;
  Bytes x_;
};

Bytes one_bit(std::size_t bit) {
  Bytes row(kWidth);
  row[bit / 8 % kWidth] = static_cast<std::uint8_t>(1 << bit % 8);
  return row;
}

TEST(HopCheck, HonestRunsPassWhoeverPlaysWhichRole) {
  for (const Bytes& points : {Bytes{1, 2, 3}, Bytes{2, 3, 1}, Bytes{3, 1, 2}})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Outcome out = Model(seed, 1 + 2 * seed, seed, points).run({});
      EXPECT_TRUE(out.verdict().sound());
      for (std::size_t r = 0; r < out.content.size(); ++r)
        EXPECT_EQ(sum({{weight(points[0], points[2]), &out.shares_1[r]},
                       {weight(points[2], points[0]), &out.shares_3[r]}}),
                  out.content[r]);
    }
}

TEST(HopCheck, EveryBitOfEveryHopIsCaughtAsThatHop) {
  const std::pair<Hop, HopVerdict> hops[] = {{first_to_second, {.first_to_second = false}},
                                             {second_to_third, {.second_to_third = false}},
                                             {third_to_first, {.third_to_first = false}},
                                             {first_to_third, {.first_to_third = false}}};
  for (const auto& [hop, expected] : hops)
    for (std::size_t row = 0; row < 7; ++row)
      for (std::size_t bit = 0; bit < 8 * kWidth; bit += 5)
        ASSERT_EQ(Model(row, 12, 7).run({{{hop, row}, one_bit(bit)}}).verdict(), expected)
            << "hop " << hop << ", row " << row << ", bit " << bit;
}

TEST(HopCheck, AFalseDigestInAnyListIsCaught) {
  const Outcome honest = Model(3, 12, 7).run({});
  const auto falsify = [&](auto HopReports::*report) {
    Outcome out = honest;
    std::vector<HopList*> lists;
    (out.reports.*report).visit(12, 7, [&](HopList& list, std::size_t) { lists.push_back(&list); });
    for (HopList* list : lists)
      for (gf128::Element& digest : *list) {
        digest.low ^= 1;
        EXPECT_FALSE(out.verdict().sound());
        digest.low ^= 1;
      }
    EXPECT_TRUE(out.verdict().sound());
  };
  falsify(&HopReports::first);
  falsify(&HopReports::second);
  falsify(&HopReports::third);
}

// Server 1 adds something to a row before the secret pi_2, guesses where pi_2 puts it, and takes it
// back in what it sends behind pi_2 and in its own new share. A check of the results alone passes
// exactly if the guess was right, and tells it so.
TEST(HopCheck, AGuessOfWhereARowGoesIsCaughtRightOrWrong) {
  constexpr std::size_t kRows = 6;
  const Bytes lie = one_bit(3);
  unsigned right = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Model model(seed, kRows, kRows);
    const HopPlan plan = model.run({}).plan;
    const std::size_t p = seed % kRows, guess = seed / kRows % kRows;
    right += plan.pi_2[p] == guess;
    const std::uint8_t part_3 = gf::mul(3, gf::inverse(2));
    const auto a3 = static_cast<std::uint8_t>(1 ^ part_3);
    const Outcome out = model.run(
        {{{first_to_second, p}, lie}, {{first_to_third, plan.pi_3[guess]}, scaled(a3, lie)}});
    EXPECT_EQ(out.verdict(), (HopVerdict{.first_to_second = false, .first_to_third = false}));
  }
  EXPECT_GT(right, 0u);
}

TEST(HopCheck, TheVerdictOnALieDependsOnNothingElse) {
  std::mt19937 random(5);
  for (unsigned lie = 0; lie < 20; ++lie) {
    Lies lies;
    for (unsigned i = 0; i <= lie % 3; ++i)
      lies[{static_cast<Hop>(random() % 4), random() % 5}] = one_bit(random());
    const HopVerdict first = Model(0, 9, 5).run(lies).verdict();
    EXPECT_FALSE(first.sound());
    for (std::uint64_t seed = 1; seed < 40; ++seed)
      ASSERT_EQ(Model(seed, 9, 5).run(lies).verdict(), first);
  }
}

TEST(HopCheck, ReportsOfAnotherSizeAreNone) {
  Outcome out = Model(1, 12, 7).run({});
  Bytes packed = pack(out.reports.second, 12, 7);
  const auto same = unpack<SecondReport>(packed, 12, 7);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->sent, out.reports.second.sent);
  EXPECT_EQ(same->line_of_3, out.reports.second.line_of_3);
  packed.pop_back();
  EXPECT_FALSE(unpack<SecondReport>(packed, 12, 7));
  EXPECT_FALSE(unpack<SecondReport>(Bytes(), 12, 7));
}

}  // namespace
}  // namespace s3oram
