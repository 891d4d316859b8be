// Who lies follows from the failed checks of several attempts, and never points at an honest
// server.
#include "oramcore/client/suspects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace s3oram {
namespace {

RowsVerdict other_rows(Bytes servers) {
  RowsVerdict verdict;
  verdict.other_rows = std::move(servers);
  return verdict;
}

TEST(SuspectsTest, AServerThatReportsWrongRowsIsFoundWhenAnyWorkersCouldHaveSentThem) {
  Suspects suspects(3, 1);
  suspects.begin(7);
  suspects.add({1, 2}, other_rows({3}));
  EXPECT_EQ(suspects.proven(), Bytes());
  suspects.add({2, 3}, other_rows({3}));
  EXPECT_EQ(suspects.proven(), Bytes()) << "server 2 may have lied both times";
  suspects.add({3, 1}, other_rows({3}));
  EXPECT_EQ(suspects.proven(), Bytes({3}));
}

TEST(SuspectsTest, AWorkerThatSpoilsTheRowsOfAllIsFound) {
  Suspects suspects(3, 1);
  suspects.begin(7);
  suspects.add({1, 2}, other_rows({1, 2, 3}));
  EXPECT_EQ(suspects.proven(), Bytes());
  suspects.add({3, 1}, other_rows({1, 2, 3}));
  EXPECT_EQ(suspects.proven(), Bytes({1}));
}

TEST(SuspectsTest, AnotherPathCountsOnceItHasBeenSettled) {
  Suspects suspects(4, 2);
  suspects.begin(7);
  RowsVerdict verdict;
  verdict.other_path = {4};
  suspects.add({1, 2, 3}, verdict);
  EXPECT_EQ(suspects.proven(), Bytes());
  suspects.add({2, 3, 4}, verdict);
  EXPECT_EQ(suspects.proven(), Bytes({4}));
}

TEST(SuspectsTest, AFalseListIsEnough) {
  Suspects suspects(3, 1);
  suspects.begin(7);
  RowsVerdict verdict;
  verdict.false_list = {2};
  suspects.add({1, 2}, verdict);
  EXPECT_EQ(suspects.proven(), Bytes({2}));
  suspects.begin(8);
  EXPECT_EQ(suspects.proven(), Bytes());
  EXPECT_EQ(suspects.failed(), 0u);
}

// Liars report anything, and send anything as workers; honest servers report what they were sent.
TEST(SuspectsTest, NoHonestServerIsFoundGuilty) {
  std::mt19937_64 random(5);
  unsigned found = 0;
  for (int run = 0; run < 3000; ++run) {
    const unsigned servers = 3 + random() % 4, threshold = 1 + random() % (servers - 2);
    std::vector<Party> all(servers);
    for (unsigned i = 0; i < servers; ++i) all[i] = static_cast<Party>(i + 1);
    std::ranges::shuffle(all, random);
    const std::set<Party> liars(all.begin(), all.begin() + threshold);
    Suspects suspects(servers, threshold);
    suspects.begin(7);
    for (unsigned attempt = 0; attempt < servers; ++attempt) {
      Bytes workers;
      for (unsigned i = 0; i <= threshold; ++i)
        workers.push_back(static_cast<Party>((attempt + i) % servers + 1));
      const bool spoilt =
          std::ranges::any_of(workers, [&](Party each) { return liars.contains(each); });
      RowsVerdict verdict;
      for (Party server = 1; server <= servers; ++server) {
        if (liars.contains(server) || spoilt)
          if (random() % 2 == 0) verdict.other_rows.push_back(server);
        if (liars.contains(server) && random() % 4 == 0) verdict.other_path.push_back(server);
      }
      suspects.add(workers, verdict);
      const Bytes proven = suspects.proven();
      found += !proven.empty();
      for (const Party server : proven) ASSERT_TRUE(liars.contains(server));
    }
  }
  EXPECT_GT(found, 1000u);
}

}  // namespace
}  // namespace s3oram
