// A number of random runs, and seeds that once found a fault.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/harness/repetitions.h"
#include "tests/sim/lies.h"
#include "tests/sim/simulation.h"

namespace s3oram {
namespace {

using test::simulate;

constexpr unsigned kRoundsOfLies = 10;

class RandomRuns : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};

TEST_P(RandomRuns, KeepAllPromises) {
  constexpr int kRuns = 5;
  for (int i = 0; i < kRuns; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * kRuns + i);
    const auto report = simulate(seed);
    ASSERT_EQ(report.failure, "") << report.shape << "; replay with: sim_run --seed " << seed
                                  << " --runs 1 --verbose";
    EXPECT_GE(report.steps, 200u);
    EXPECT_GE(report.cuts, 1u);
  }
}

TEST_P(RandomRuns, NeedToTrustNoServer) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  const auto report = test::live_with_lies(seed, kRoundsOfLies, Evictor::shuffle);
  ASSERT_EQ(report.failure, "") << "replay with: lies_run --seed " << seed << " --rounds "
                                << kRoundsOfLies << " --runs 1 --verbose";
  EXPECT_GT(report.lies, 0u);
}

class RandomMirrors : public RandomRuns {};

TEST_P(RandomMirrors, KeepAllPromises) {
  constexpr int kRuns = 5;
  for (int i = 0; i < kRuns; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * kRuns + i);
    const auto report = simulate(seed, test::Loser::nobody, SchemeKind::mirror);
    ASSERT_EQ(report.failure, "") << report.shape << "; replay with: sim_run --mirror --seed "
                                  << seed << " --runs 1 --verbose";
    EXPECT_GE(report.cuts, 1u);
  }
}

TEST_P(RandomMirrors, LoseTheClientOrAServer) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  for (const test::Loser loser : {test::Loser::client, test::Loser::server}) {
    const auto report = simulate(seed, loser, SchemeKind::mirror);
    ASSERT_EQ(report.failure, "") << report.shape << "; seed " << seed << ", loser "
                                  << static_cast<int>(loser);
  }
}

TEST_P(RandomMirrors, NeedToTrustNoServer) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  const auto servers = static_cast<Party>(2 + seed % 2);
  const auto report = test::live_with_lies(seed, 3, Evictor::selection, servers);
  ASSERT_EQ(report.failure, "") << "replay with: lies_run --mirror --servers " << servers + 0
                                << " --seed " << seed << " --rounds 3 --runs 1 --verbose";
}

class RandomRings : public RandomRuns {};

TEST_P(RandomRings, KeepAllPromises) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  for (const test::Loser loser : {test::Loser::nobody, test::Loser::client}) {
    const auto report = simulate(seed, loser, SchemeKind::ring);
    ASSERT_EQ(report.failure, "") << report.shape << "; replay with: sim_run --ring"
                                  << (loser == test::Loser::client ? " --lose-client" : "")
                                  << " --seed " << seed << " --runs 1 --verbose";
    EXPECT_GE(report.cuts, 1u);
  }
}

const auto kSeeds = testing::Range(0, static_cast<int>(test::repetitions(10)));
INSTANTIATE_TEST_SUITE_P(Seeds, RandomMirrors, kSeeds);
INSTANTIATE_TEST_SUITE_P(Seeds, RandomRings, kSeeds);
INSTANTIATE_TEST_SUITE_P(Seeds, RandomRuns, kSeeds);

TEST(Simulator, SeedsThatOnceFoundSomething) {
  spdlog::set_level(spdlog::level::off);
  // 13194: a tree that has just grown asks to grow again, when a server has not committed yet.
  for (const std::uint64_t seed : {13194}) EXPECT_EQ(simulate(seed).failure, "") << seed;
  // 100171: a ring's server alters the log when top.cache is rebuilt from it.
  // 520146: its server loses its power after it has answered, and before it has recorded the turn.
  // 900254: the client cannot read the header of vault.db's log, and takes the log to be empty.
  for (const std::uint64_t seed : {100171, 520146, 900254})
    EXPECT_EQ(simulate(seed, test::Loser::nobody, SchemeKind::ring).failure, "") << seed;
  // 300178: a ring's tree has fewer slots than blocks, so that all turns log the top again.
  for (const std::uint64_t seed : {300178})
    EXPECT_EQ(simulate(seed, test::Loser::client, SchemeKind::ring).failure, "") << seed;
}

TEST(Simulator, ASeedGivesTheSameRunAgain) {
  spdlog::set_level(spdlog::level::off);
  for (std::uint64_t seed = 500; seed < 504; ++seed) {
    const auto first = simulate(seed);
    simulate(seed + 1000);  // runs in between leave no trace
    const auto second = simulate(seed);
    EXPECT_EQ(first.trace, second.trace) << "seed " << seed;
    EXPECT_EQ(first.steps, second.steps) << "seed " << seed;
  }
  EXPECT_NE(simulate(500).trace, simulate(501).trace);
}

TEST(Simulator, TreesGrowInManyRuns) {
  spdlog::set_level(spdlog::level::off);
  int grown = 0;
  for (std::uint64_t seed = 600; seed < 620; ++seed) grown += simulate(seed).height > 2;
  EXPECT_GE(grown, 10);
}

}  // namespace
}  // namespace s3oram
