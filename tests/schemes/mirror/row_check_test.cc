// The check of an eviction's rows: correct rows pass, and no lie of one server passes, whichever
// rows the plan keeps.
#include "oramcore/schemes/mirror/protocol/row_check.h"

#include <gtest/gtest.h>

#include "oramcore/schemes/mirror/client/row_verdict.h"
#include "tests/schemes/mirror/plain_rows.h"

namespace s3oram {
namespace {

constexpr std::size_t kSlot = mirror::kHeader + OpaqueSealer::kOverhead + 512;
constexpr std::size_t kRows = 9, kKept = 6;

class RowCheckTest : public testing::TestWithParam<unsigned> {
 protected:
  RowCheckTest() {
    for (Bytes& row : rows_) random_.fill(row);
    rows_[4] = Bytes(kSlot);  // never written
    random_.fill(attempt_);
  }
  unsigned workers() const { return GetParam(); }
  mirror::Selection random_selection() {
    mirror::Selection selection(kKept);
    for (auto& from : selection)
      if (random_.u64() % 4 != 0) from = static_cast<std::uint32_t>(random_.u64() % kRows);
    return selection;
  }
  std::vector<Bytes> made(const mirror::Selection& selection) const {
    return test::evicted_rows(rows_, selection, keys_, attempt_, workers());
  }
  CertifyAnswer report(const std::vector<Bytes>& old, const std::vector<Bytes>& made,
                       bool with_list) const {
    mirror::RowReport report(seed_, kSlot, kRows, kKept);
    for (std::size_t i = 0; i < kRows; ++i) report.add_old(i, i == 4 ? nullptr : old[i].data());
    for (std::size_t place = 0; place < kKept; ++place) report.add_new(place, made[place].data());
    return report.answer(with_list);
  }
  Status judge(const mirror::Selection& selection,
               const std::vector<CertifyAnswer>& answers) const {
    return verdict(selection, answers).status;
  }
  /// Server 1 was asked for its list.
  RowsVerdict verdict(const mirror::Selection& selection,
                      const std::vector<CertifyAnswer>& answers) const {
    Bytes servers;
    while (servers.size() < answers.size())
      servers.push_back(static_cast<std::uint8_t>(servers.size() + 1));
    const mirror::Prescribed prescribed{selection, attempt_, workers(), kRows, kSlot};
    return mirror::judge_rows(prescribed, mirror::sum_of_masks(prescribed, keys_, seed_), seed_,
                              servers, answers, 1);
  }

  Prg random_{Seed{11}, as_bytes("row check")};
  mirror::LayerKeys keys_{Seed{2}};
  mirror::LayerAttempt attempt_{};
  Seed seed_ = random_.seed();
  std::vector<Bytes> rows_{kRows, Bytes(kSlot)};
};
INSTANTIATE_TEST_SUITE_P(Workers, RowCheckTest, testing::Values(2u, 3u, 6u));

TEST_P(RowCheckTest, WhatIsRightPasses) {
  for (int i = 0; i < 20; ++i) {
    const auto selection = random_selection();
    const auto right = made(selection);
    EXPECT_TRUE(judge(selection, {report(rows_, right, true), report(rows_, right, false)}));
  }
}

// A worker's lie is in everyone's rows, because what it passed on was added up everywhere.
TEST_P(RowCheckTest, NoChangedRowPasses) {
  for (int i = 0; i < 60; ++i) {
    const auto selection = random_selection();
    auto wrong = made(selection);
    wrong[random_.u64() % kKept][mirror::kEntry + random_.u64() % (kSlot - mirror::kEntry)] ^= 1;
    EXPECT_FALSE(judge(selection, {report(rows_, wrong, true), report(rows_, wrong, false)}));
  }
}

TEST_P(RowCheckTest, RowsThatDifferAmongServersDoNotPass) {
  const auto selection = random_selection();
  const auto right = made(selection);
  auto other = right;
  other[2][100] ^= 8;
  EXPECT_FALSE(judge(selection, {report(rows_, right, true), report(rows_, other, false)}));
  EXPECT_FALSE(judge(selection, {report(rows_, other, true), report(rows_, right, false)}));
}

// If old rows that differ passed, two servers would continue with different paths.
TEST_P(RowCheckTest, OldRowsThatDifferDoNotPass) {
  const auto selection = random_selection();
  const auto right = made(selection);
  auto other = rows_;
  other[7][200] ^= 8;
  EXPECT_FALSE(judge(selection, {report(rows_, right, true), report(other, right, false)}));
}

TEST_P(RowCheckTest, FalseReportsDoNotPass) {
  const auto selection = random_selection();
  const auto right = made(selection);
  const auto one = report(rows_, right, true), two = report(rows_, right, false);
  auto lie = one;
  lie.sum[3] ^= 1;
  EXPECT_FALSE(judge(selection, {lie, two}));
  lie = one;
  lie.list[17] ^= 1;
  EXPECT_FALSE(judge(selection, {lie, two})) << "its own digest shows it";
  lie.list_digest = mirror::digest_of(lie.list);
  EXPECT_FALSE(judge(selection, {lie, two})) << "the other server's digest shows it";
  lie = one;
  lie.list.resize(16);
  EXPECT_FALSE(judge(selection, {lie, two}));
  lie.list.clear();
  EXPECT_FALSE(judge(selection, {lie, two}));
}

// Where more servers answer than may lie, those that differ from what is right are named.
TEST_P(RowCheckTest, ThoseThatDifferAreNamed) {
  const auto selection = random_selection();
  const auto right = made(selection);
  std::vector<CertifyAnswer> honest(workers() + 1, report(rows_, right, false));
  honest[0] = report(rows_, right, true);
  auto answers = honest;
  answers.back().sum[3] ^= 1;
  const Bytes last{static_cast<std::uint8_t>(answers.size())};
  EXPECT_EQ(verdict(selection, answers).other_rows, last);
  EXPECT_TRUE(verdict(selection, answers).other_path.empty());
  answers = honest;
  answers.back().list_digest[3] ^= 1;
  EXPECT_EQ(verdict(selection, answers).other_path, last);
  EXPECT_TRUE(verdict(selection, answers).other_rows.empty());
  answers = honest;
  answers[0].list[17] ^= 1;
  EXPECT_EQ(verdict(selection, answers).false_list, Bytes{1});
  answers[0].list_digest = mirror::digest_of(answers[0].list);
  EXPECT_EQ(verdict(selection, answers).other_path, Bytes{1});
  EXPECT_FALSE(judge(selection, answers));
  // Of as many servers as work, all but one may lie.
  answers = honest;
  answers.pop_back();
  answers.back().list_digest[3] ^= 1;
  EXPECT_FALSE(judge(selection, answers));
  EXPECT_TRUE(verdict(selection, answers).other_path.empty());
}

// A lie must be caught whichever rows the plan keeps: an empty row counts like any other.
TEST_P(RowCheckTest, ALieInAnEmptyRowDoesNotPass) {
  const mirror::Selection nothing(kKept);
  auto wrong = made(nothing);
  wrong[0][500] ^= 1;
  EXPECT_FALSE(judge(nothing, {report(rows_, wrong, true), report(rows_, wrong, false)}));
}

}  // namespace
}  // namespace s3oram
