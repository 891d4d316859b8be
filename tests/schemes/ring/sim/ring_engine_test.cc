// Tests that ring's engine finds what was written, also after crashes of either party.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "tests/harness/repetitions.h"
#include "tests/schemes/ring/sim/ring_driver.h"
#include "tests/sim/ledger.h"

namespace s3oram::ring::test {
namespace {

using s3oram::test::Ledger;

class RingEngines : public testing::TestWithParam<std::tuple<VolumeParams, int>> {};
std::string shape_name(const testing::TestParamInfo<std::tuple<VolumeParams, int>>& test) {
  const auto& [params, seed] = test.param;
  return fmt::format("Z{}A{}k{}h{}s{}", params.bucket_size, params.evict_every, params.top_levels,
                     params.first_height, seed);
}
INSTANTIATE_TEST_SUITE_P(Shapes, RingEngines,
                         testing::Combine(testing::ValuesIn(kShapes), testing::Values(1, 2)),
                         shape_name);

TEST_P(RingEngines, HoldWhatWasWrittenAndFindItAgain) {
  const auto [params, seed] = GetParam();
  RingWorld world(params, static_cast<std::uint64_t>(seed));
  world.pool.shuffle = seed == 2;
  Driver driver(world, static_cast<std::uint64_t>(seed));
  constexpr BlockId kBlocks = 100;
  for (int session = 0; session < 3; ++session) {
    ASSERT_GOOD(world.open_client());
    driver.operate(150, kBlocks, session == 0 ? 1 : 20);
    ASSERT_GOOD(world.commit());
    driver.check_all(kBlocks);
    EXPECT_GT(world.engine().status().evictions, 0u);
    ASSERT_GOOD(world.close_client());
    ASSERT_GOOD(world.stop_server());
    world.start_server();
  }
  ASSERT_GOOD(world.open_client());
  driver.check_all(kBlocks);
  const EngineStatus status = world.engine().status();
  EXPECT_LE(status.blocks, status.capacity);
  EXPECT_EQ(status.unreadable, 0u);
  ASSERT_GOOD(world.close_client());
}

/// Kills parties or cuts their power at random moments. Everything that was committed is there
/// afterwards.
class Crashes {
 public:
  Crashes(const VolumeParams& params, std::uint64_t seed)
      : world_(params, seed), random_(seed), ledger_(params.block_size) {
    world_.pool.shuffle = true;
    world_.network.faults = {.lost = 0.02, .doubled = 0.02, .late = 0.05};
  }

  void run(int rounds) {
    for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
      open();
      arm();
      work();
      if (!world_.runs(kClient)) ledger_.crashed();
      if (world_.runs(kClient) && random_() % 2 == 0) {
        world_.kill(kClient);
        ledger_.crashed();
      }
    }
    open();
    for (BlockId block = 0; block < kBlocks; ++block) check(block);
  }

 private:
  static constexpr BlockId kBlocks = 40;

  void start_server() {
    while (!world_.runs(kServer))
      if (Status started = world_.try_start_server(); !started && world_.runs(kServer))
        FAIL() << started.error().message;
  }
  void open() {
    while (!world_.runs(kClient)) {
      start_server();
      std::optional<Status> opened;
      world_.begin_open_client([&](Status status) { opened.emplace(std::move(status)); });
      world_.run_until([&] {
        if (!world_.runs(kServer)) start_server();
        return opened.has_value() || !world_.runs(kClient);
      });
      if (opened) {
        ASSERT_GOOD(*opened);
      }
    }
  }
  void arm() {
    const Party victim = random_() % 2 == 0 ? kClient : kServer;
    world_.disk(victim).cut_after(1 + random_() % 400);
  }
  /// Runs until someone dies, or until enough has been done.
  void work() {
    std::size_t ended = 0, begun = 0;
    const bool* alive = nullptr;
    auto living = std::make_shared<bool>(true);
    world_.on_death = [living](Party party) {
      if (party == kClient) *living = false;
    };
    alive = living.get();
    while (*alive && ended < 60) {
      while (*alive && begun < 60 && begun - ended < 6) {
        ++begun;
        begin(random_() % kBlocks, ended, living);
      }
      world_.run_until([&, before = ended] {
        if (!world_.runs(kServer)) start_server();
        return ended > before || !*alive;
      });
    }
    world_.on_death = {};
    // A request to a dead client ends in its old life, which nobody hears.
    world_.settle();
  }
  void begin(BlockId block, std::size_t& ended, std::shared_ptr<bool> living) {
    const auto counted = [&ended, living] {
      if (*living) ++ended;
    };
    switch (random_() % 4) {
      case 0:
      case 1: {
        Bytes content = pattern(block, ++generation_, world_.params().block_size);
        const auto number = ledger_.wrote(block, content);
        world_.engine().write(block, std::move(content),
                              [this, counted, block, number, living](Status status) {
                                if (!*living) return;
                                if (status) ledger_.acknowledged(block, number);
                                counted();
                              });
        return;
      }
      case 2: {
        const auto covers = ledger_.snapshot();
        world_.engine().commit([this, counted, covers, living](Status status) {
          if (!*living) return;
          if (status) ledger_.committed(covers);
          counted();
        });
        return;
      }
      default:
        world_.engine().read(block, [this, counted, block, living](Result<Bytes> got) {
          if (!*living) return;
          ASSERT_TRUE(got) << got.error().message;
          EXPECT_TRUE(ledger_.may_be(block, *got)) << "block " << block;
          counted();
        });
    }
  }
  void check(BlockId block) {
    auto got = world_.read(block);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(ledger_.may_be(block, *got)) << "block " << block;
  }

  RingWorld world_;
  std::mt19937_64 random_;
  Ledger ledger_;
  std::uint64_t generation_ = 0;
};

class RingCrashes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RingCrashes,
                         testing::Range(1, 1 + static_cast<int>(s3oram::test::repetitions(12))));

TEST_P(RingCrashes, LoseNothingThatWasCommitted) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  Crashes crashes(kShapes[seed % std::size(kShapes)], seed);
  crashes.run(12);
}

}  // namespace
}  // namespace s3oram::ring::test
