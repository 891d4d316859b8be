// The check of a shuffle's hops in a model of the three roles. Honest runs pass, every lie is
// caught, and whether a lie is caught does not depend on the permutation.
#include "oramcore/protocol/hop_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/hop_digest.h"
#include "oramcore/sharing/row_sum.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

constexpr std::size_t kWidth = 37;  // not a whole number of words

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
using Lies = std::map<std::pair<Hop, std::size_t>, Bytes>;  // values added to rows of a hop

const Bytes kError = [] {
  Bytes row(kWidth);
  row[3] = 0x35;
  return row;
}();

struct Outcome {
  HopPlan plan;
  HopMasks masks;
  HopReports reports;
  gf128::Element error[3];                     // the digest of kError under each key
  Rows content, shares_1, shares_2, shares_3;  // the new ones, of the kept places
  HopVerdict verdict() const { return judge_hops(plan, masks, reports); }
};

/// Runs one shuffle in which the parties with points `x` play roles 1 to 3.
class Model {
 public:
  Model(std::uint64_t seed, std::size_t rows, std::size_t kept, Bytes points = {1, 2, 3})
      : seed_(Seed{static_cast<std::uint8_t>(seed), static_cast<std::uint8_t>(seed >> 8)}),
        rows_(rows),
        kept_(kept),
        x_(std::move(points)) {}

  Outcome run(const Lies& lies, const HopPlan* given = nullptr) {
    Prg random(seed_, as_bytes("model"));
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
    if (given) out.plan = *given;
    const Rows g13 = rows(rows_), g21 = rows(rows_), g32 = rows(rows_), g12 = rows(kept_);
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
    Rows m31(rows_), m13(kept_);
    const std::size_t dropped = rows_ - kept_;
    for (std::size_t r = 0; r < rows_; ++r)
      m31[r] = lied(third_to_first, r, line(x_[0], c_3[from_3[r]], g32[r]));
    for (std::size_t r = 0; r < kept_; ++r) {
      const std::size_t q = from_3[dropped + r];
      m13[r] = lied(first_to_third, r, line(x_[2], g21[q], g12[r]));
      out.shares_1.push_back(plus(line(x_[0], g21[q], g12[r]), m31[dropped + r]));
      out.shares_2.push_back(plus(g32[dropped + r], g12[r]));
      out.shares_3.push_back(plus(line(x_[2], c_3[q], g32[dropped + r]), m13[r]));
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
    HopMasks& masks = out.masks;
    third.received_second.resize(rows_);
    const std::uint8_t third_beside_first = weight(x_[2], x_[0]);
    const Bytes on_line = lagrange_at(x_[2], Bytes{x_[0], x_[1]});
    RowSum audit(kWidth);
    for (std::size_t s = 0; s < rows_; ++s) {
      first.own.push_back(digest(c2, scaled(weight(x_[0], x_[2]), s1[s])));
      second.received.push_back(digest(c1, plus(b2[pi_1[s]], scaled(weight(x_[1], x_[2]), s2[s]))));
      second.sent.push_back(digest(c3, line(x_[0], m12[s], Bytes(kWidth))));
      third.own.push_back(digest(c1, scaled(weight(x_[2], x_[1]), s3[s])));
      third.received_second[s] = digest(c2, c_3[pi_2[s]]);
      third.own_again.push_back(digest(c2, scaled(third_beside_first, s3[s])));
      masks.first_to_second.push_back(digest(c1, g13[pi_1[s]]));
      masks.second_to_third.push_back(digest(c2, g21[pi_2[s]]));
      std::array<std::uint8_t, 16> factor;
      random.fill(factor);
      masks.weights.push_back(gf128::from_bytes(factor));
      audit.add(masks.weights[s], scaled(gf::mul(third_beside_first, on_line[0]), s1[s]).data());
      audit.add(masks.weights[s], scaled(gf::mul(third_beside_first, on_line[1]), s2[s]).data());
    }
    gf128::Sum audited;
    c2.add_words(audit.bytes(), audited);
    first.audit = {gf128::reduce(audited)};
    for (std::size_t r = 0; r < rows_; ++r) {
      first.received.push_back(digest(c3, m31[r]));
      const std::size_t p = inverse(pi_2)[from_3[r]];
      masks.third_to_first.push_back(digest(c3, line(x_[0], g13[p], g32[r])));
    }
    for (std::size_t r = 0; r < kept_; ++r) {
      third.received_first.push_back(digest(c1, m13[r]));
      masks.first_to_third.push_back(digest(c1, line(x_[2], g21[from_3[dropped + r]], g12[r])));
    }
    out.error[0] = digest(c1, kError);
    out.error[1] = digest(c2, kError);
    out.error[2] = digest(c3, kError);
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

TEST(HopCheck, HonestRunsPassInEveryCastOfRoles) {
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
  const std::pair<Hop, HopVerdict> hops[] = {
      {first_to_second, {.first_to_second = false, .second_to_third = false}},
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

// Server 1 adds something to a row before the secret pi_2, guesses where pi_2 puts the row, and
// takes it back in the message that it sends after pi_2 and in its own new share. A check of the
// results alone would pass exactly if the guess was right, and so tell the server.
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
    EXPECT_EQ(
        out.verdict(),
        (HopVerdict{.first_to_second = false, .second_to_third = false, .first_to_third = false}));
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

/// Something that a role can falsify: a row of a message, or a digest in a list.
struct Falsehood {
  std::optional<Hop> hop;
  unsigned list = 0, key = 1;  // key: the list's key, from 1
  std::size_t at = 0;
};

std::vector<Falsehood> falsehoods_of(unsigned role, std::size_t rows, std::size_t kept) {
  std::vector<Falsehood> all;
  const auto message = [&](Hop hop, std::size_t size) {
    for (std::size_t at = 0; at < size; ++at) all.push_back({.hop = hop, .at = at});
  };
  unsigned number = 0;
  const auto list = [&](unsigned key, std::size_t size) {
    for (std::size_t at = 0; at < size; ++at)
      all.push_back({.hop = {}, .list = number, .key = key, .at = at});
    ++number;
  };
  if (role == 1) {
    message(first_to_second, rows), message(first_to_third, kept);
    list(2, rows), list(3, rows), list(2, 1);
  } else if (role == 2) {
    message(second_to_third, rows);
    list(1, rows), list(3, rows);
  } else {
    message(third_to_first, rows);
    list(1, rows), list(1, kept), list(2, rows), list(2, rows);
  }
  return all;
}

bool is_caught(unsigned role, const std::vector<Falsehood>& told, const HopPlan& plan,
               std::size_t kept) {
  Lies lies;
  for (const Falsehood& each : told)
    if (each.hop) lies[{*each.hop, each.at}] = kError;
  const std::size_t rows = plan.pi_1.size();
  Outcome out = Model(rows, rows, kept).run(lies, &plan);
  std::vector<HopList*> lists;
  const auto add = [&](HopList& list, std::size_t) { lists.push_back(&list); };
  if (role == 1) out.reports.first.visit(rows, kept, add);
  if (role == 2) out.reports.second.visit(rows, kept, add);
  if (role == 3) out.reports.third.visit(rows, kept, add);
  for (const Falsehood& each : told)
    if (!each.hop) (*lists[each.list])[each.at] += out.error[each.key - 1];
  return !out.verdict().sound();
}

std::vector<Permutation> all_permutations(std::uint32_t rows) {
  Permutation each(rows);
  std::iota(each.begin(), each.end(), 0u);
  std::vector<Permutation> all;
  do all.push_back(each);
  while (std::next_permutation(each.begin(), each.end()));
  return all;
}

/// Whatever one role falsifies, in one place or in two: it is caught under all these plans. (A
/// digest may be falsified as if its row had another error, even one that a message has.)
void expect_no_selective_failure(const std::vector<HopPlan>& plans, std::size_t kept) {
  for (unsigned role = 1; role <= 3; ++role) {
    const auto all = falsehoods_of(role, plans.front().pi_1.size(), kept);
    for (std::size_t one = 0; one < all.size(); ++one)
      for (std::size_t other = one; other < all.size(); ++other) {
        std::vector<Falsehood> told{all[one]};
        if (other != one) told.push_back(all[other]);
        const auto caught = std::ranges::count_if(
            plans, [&](const HopPlan& plan) { return is_caught(role, told, plan, kept); });
        ASSERT_EQ(static_cast<std::size_t>(caught), plans.size())
            << "role " << role << ", falsehoods " << one << " and " << other;
      }
  }
}

TEST(HopCheck, ThreeRowsWhetherALieIsCaughtIsTheSameForAllPermutations) {
  std::vector<HopPlan> plans;
  for (const Permutation& pi_1 : all_permutations(3))
    for (const Permutation& pi_2 : all_permutations(3))
      for (const Permutation& pi_3 : all_permutations(3)) plans.push_back({pi_1, pi_2, pi_3});
  expect_no_selective_failure(plans, 2);
}

TEST(HopCheck, FiveRowsWhetherALieIsCaughtIsTheSameForAllPermutations) {
  std::vector<HopPlan> plans;
  const auto all = all_permutations(5);
  for (std::size_t i = 0; i < all.size(); ++i)
    plans.push_back({all[i], all[i * 7 % all.size()], all[i * 11 % all.size()]});
  expect_no_selective_failure(plans, 4);
}

TEST(HopCheck, ReportsOfAnotherSizeAreNone) {
  Outcome out = Model(1, 12, 7).run({});
  Bytes packed = pack(out.reports.second, 12, 7);
  const auto same = unpack<SecondReport>(packed, 12, 7);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->sent, out.reports.second.sent);
  EXPECT_EQ(same->received, out.reports.second.received);
  packed.pop_back();
  EXPECT_FALSE(unpack<SecondReport>(packed, 12, 7));
  EXPECT_FALSE(unpack<SecondReport>(Bytes(), 12, 7));
}

}  // namespace
}  // namespace s3oram
