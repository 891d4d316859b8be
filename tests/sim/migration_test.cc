// Blocks move between volumes of all schemes while they are used. Whatever cuts the client's power,
// after each cut every block has exactly the content that the last commit recorded.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/base/good.h"
#include "tests/harness/volumes.h"
#include "tests/schemes/ring/sim/ring_world.h"
#include "tests/sim/migration_world.h"

namespace s3oram {
namespace {

using test::MigrationWorld;
using Side = MigrationWorld::Side;
constexpr Side kFrom = MigrationWorld::kFrom, kTo = MigrationWorld::kTo;

constexpr BlockId kBlocks = 12;

const VolumeParams kRing = ring::test::small_ring(4, 3, 1);
const VolumeParams kMirror = test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 2});
const VolumeParams kS3oram = test::safe_volume(Evictor::shuffle, 2);

struct Direction {
  const char* name;
  VolumeParams from, to;
};

class MigrationTest : public testing::TestWithParam<Direction> {
 protected:
  MigrationTest() { make(); }

  void make() {
    auto [name, from, to] = GetParam();
    from.block_size = to.block_size = 512;
    world_.reset();
    world_ = std::make_unique<MigrationWorld>(from, to, 7);
    newest_.clear();
  }
  MigrationWorld& world() { return *world_; }

  /// Puts blocks into the source, and its rows into the volume.
  void fill() {
    ASSERT_GOOD(world().open(kFrom));
    for (std::uint64_t generation = 1; generation <= 2; ++generation)
      for (BlockId block = 0; block < kBlocks; ++block) {
        ASSERT_GOOD(world().write(block, generation));
        newest_[block] = generation;
      }
    ASSERT_GOOD(world().commit());
    ASSERT_GOOD(world().close());
    ASSERT_EQ(world().rows(kFrom), newest_);
    ASSERT_GOOD(world().set_rows(kTo, newest_));
  }
  /// Checks that everything that the rows name is there. Discards the rest, as a mount does.
  void check() {
    const auto rows = newest_;
    for (const BlockId block : world().device().mapped())
      if (!rows.contains(block)) world().discard(block);
    for (const auto& [block, generation] : rows) {
      const auto content = world().read(block);
      ASSERT_GOOD(content);
      ASSERT_EQ(*content, world().pattern(block, generation)) << "block " << block;
    }
  }
  /// Uses the device while blocks move, until all have moved. Ends early if the client dies.
  void use() {
    for (std::uint64_t round = 0; round < 3; ++round) {
      const BlockId block = round * 3;
      if (!world().read(block + 1)) return;
      if (!world().write(block, 10 + round)) return;
      if (!world().write(kBlocks + round, 20 + round)) return;
      world().discard(block + 2);
      if (!world().commit()) return;
    }
    await_moved();
  }
  void await_moved() {
    bool died = false;
    world().run_until([&] {
      died = !world().runs();
      return died || world().device().progress()->left == 0;
    });
  }
  /// Opens only the new volume, and finds everything there.
  void check_moved() {
    ASSERT_GOOD(world().open(kTo));
    ASSERT_NO_FATAL_FAILURE(check());
    EXPECT_EQ(world().engine(kTo).status().unreadable, 0u);
    ASSERT_GOOD(world().close());
  }

  std::unique_ptr<MigrationWorld> world_;
  std::map<BlockId, std::uint64_t> newest_;
};

TEST_P(MigrationTest, MovesEverythingWhileItIsUsed) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kTo, kFrom));
  use();
  const auto progress = world().device().progress();
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->left, 0u);
  EXPECT_EQ(progress->hindrance, "");
  ASSERT_GOOD(world().close());
  newest_ = world().rows(kTo);
  ASSERT_EQ(newest_.size(), kBlocks);  // three were added and three discarded
  check_moved();
}

// The client loses its power or is killed, before or after one of its commits, including the
// decisions of evictions and the sessions of both volumes. To try all of them: S3O_STRIDE=1.
TEST_P(MigrationTest, GoesOnAfterAnyCut) {
  const char* given = std::getenv("S3O_STRIDE");
  const std::size_t stride = given ? std::strtoull(given, nullptr, 10) : 37;
  bool reached = true;
  for (std::size_t cut = 1; reached; cut += stride) {
    SCOPED_TRACE(fmt::format("cut {}", cut));
    make();
    ASSERT_NO_FATAL_FAILURE(fill());
    std::size_t steps = 0;
    reached = false;
    world().on_step = [&](std::string_view, bool) {
      if (++steps != cut) return;
      reached = true;
      if (cut % 2 == 0)
        world().kill();
      else
        world().disk().cut();
    };
    if (world().open(kTo, kFrom)) use();
    world().on_step = {};
    if (!reached) ASSERT_GOOD(world().close());
    newest_ = world().rows(kTo);
    ASSERT_GOOD(world().open(kTo, kFrom));
    ASSERT_NO_FATAL_FAILURE(check());
    await_moved();
    ASSERT_GOOD(world().close());
    ASSERT_NO_FATAL_FAILURE(check_moved());
  }
}

TEST_P(MigrationTest, TheSourceKeepsWhatItHad) {
  ASSERT_NO_FATAL_FAILURE(fill());
  const auto before = newest_;
  ASSERT_GOOD(world().open(kTo, kFrom));
  use();
  ASSERT_GOOD(world().close());
  newest_ = before;
  ASSERT_GOOD(world().open(kFrom));
  check();
}

// Both volumes' parts of vault.db are rebuilt from what the servers of each hold.
TEST_P(MigrationTest, GoesOnAfterTheClientHasLostItsDisk) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kTo, kFrom, 512));  // a block a second
  world().run_until([&] { return world().device().progress()->left <= kBlocks / 2; });
  const auto write = [&](BlockId block, std::uint64_t generation) {
    ASSERT_GOOD(world().write(block, generation));
    newest_[block] = generation;
  };
  ASSERT_NO_FATAL_FAILURE(write(1, 30));
  ASSERT_NO_FATAL_FAILURE(write(kBlocks - 1, 31));
  ASSERT_NO_FATAL_FAILURE(write(kBlocks, 32));
  ASSERT_GOOD(world().commit());
  ASSERT_NO_FATAL_FAILURE(write(2, 33));
  world().discard(3);
  newest_.erase(3);
  world().kill();
  world().lose_disk();
  ASSERT_GOOD(world().rebuild(kTo));
  ASSERT_GOOD(world().rebuild(kFrom));
  ASSERT_GOOD(world().set_rows(kTo, newest_));
  ASSERT_GOOD(world().open(kTo, kFrom));
  ASSERT_NO_FATAL_FAILURE(check());
  await_moved();
  ASSERT_GOOD(world().close());
  check_moved();
}

// The commit fails as a migration begins: the engine of the source is given up only once all its
// data are committed.
TEST_P(MigrationTest, ACommitThatFailsLeavesTheEngineInUse) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kFrom));
  ASSERT_GOOD(world().write(1, 50));
  world().disk().faults.write = 1;
  ASSERT_GOOD(world().hold());
  EXPECT_FALSE(world().commit_held());
  world().disk().faults.write = 0;
  world().device().resume();
  const auto content = world().read(1);
  ASSERT_GOOD(content);
  EXPECT_EQ(*content, world().pattern(1, 50));
  ASSERT_GOOD(world().hold());
  ASSERT_GOOD(world().commit_held());
  world().kill();
  EXPECT_EQ(world().rows(kFrom)[1], 50u);
  ASSERT_GOOD(world().open(kFrom));
  EXPECT_EQ(*world().read(1), world().pattern(1, 50));
}

INSTANTIATE_TEST_SUITE_P(Directions, MigrationTest,
                         testing::Values(Direction{"RingToMirror", kRing, kMirror},
                                         Direction{"RingToS3oram", kRing, kS3oram},
                                         Direction{"MirrorToRing", kMirror, kRing},
                                         Direction{"MirrorToS3oram", kMirror, kS3oram},
                                         Direction{"S3oramToRing", kS3oram, kRing},
                                         Direction{"S3oramToMirror", kS3oram, kMirror},
                                         Direction{"RingToRing", kRing, kRing},
                                         Direction{"MirrorToMirror", kMirror, kMirror},
                                         Direction{"S3oramToS3oram", kS3oram, kS3oram}),
                         [](const auto& test) { return std::string(test.param.name); });

class MigratingDeviceTest : public MigrationTest {};
INSTANTIATE_TEST_SUITE_P(OneDirection, MigratingDeviceTest,
                         testing::Values(Direction{"RingToMirror", kRing, kMirror}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(MigratingDeviceTest, TheRateBoundsTheCopies) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kTo, kFrom, 512));  // a block a second
  const Duration begun = world().now();
  await_moved();
  EXPECT_GE(world().now() - begun, std::chrono::seconds(kBlocks - 1));
  EXPECT_LE(world().now() - begun, std::chrono::seconds(kBlocks + 2));
  ASSERT_GOOD(world().close());
}

TEST_P(MigratingDeviceTest, SaysHowLongItTakes) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kTo, kFrom, 512));
  EXPECT_EQ(world().device().progress()->left, kBlocks);
  EXPECT_FALSE(world().device().progress()->takes);
  world().run_until([&] { return world().device().progress()->moved == kBlocks / 2; });
  const auto takes = world().device().progress()->takes;
  ASSERT_TRUE(takes);
  EXPECT_NEAR(std::chrono::duration<double>(*takes).count(), kBlocks / 2, 1.5);
  // Closing does not wait for the rate.
  const Duration begun = world().now();
  ASSERT_GOOD(world().close());
  EXPECT_LE(world().now() - begun, std::chrono::seconds(1));
}

TEST_P(MigratingDeviceTest, AnotherRateCountsAtOnce) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kTo, kFrom, 1));  // a block in eight minutes
  world().pass(std::chrono::seconds(5));
  EXPECT_GE(world().device().progress()->left, kBlocks - 1);
  const Duration begun = world().now();
  world().device().set_rate(0);
  await_moved();
  EXPECT_LE(world().now() - begun, std::chrono::seconds(5));
  ASSERT_GOOD(world().close());
}

TEST_P(MigratingDeviceTest, TheTimeThatIsLeftFollowsTheRate) {
  ASSERT_NO_FATAL_FAILURE(fill());
  const auto takes = [this] {
    return std::chrono::duration<double>(world().device().progress()->takes.value()).count();
  };
  ASSERT_GOOD(world().open(kTo, kFrom, 512));
  world().run_until([&] { return world().device().progress()->moved == kBlocks / 2; });
  world().device().set_rate(1);  // almost stops the copies
  EXPECT_GE(takes(), (kBlocks / 2 - 1) * 512);
  ASSERT_GOOD(world().write(kBlocks - 1, 30));  // it moves, but says nothing about the copies
  EXPECT_GE(takes(), (kBlocks / 2 - 2) * 512);
  world().pass(std::chrono::seconds(100));
  world().device().set_rate(512);
  world().run_until([&] { return world().device().progress()->takes.has_value(); });
  EXPECT_LE(takes(), kBlocks) << "the time of the lower rate counts no longer";
  ASSERT_GOOD(world().close());
}

// A server that blocks leave is another one than the server with its number that they move to.
TEST_P(MigratingDeviceTest, SaysWhichVolumeHindersTheCopies) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kTo, kFrom, 512));
  EXPECT_FALSE(world().device().progress()->is_of_source);
  ASSERT_GOOD(world().close_under_device(kFrom));
  world().run_until([&] { return !world().device().progress()->hindrance.empty(); });
  EXPECT_TRUE(world().device().progress()->is_of_source);
  static_cast<void>(world().close());
  ASSERT_GOOD(world().open(kTo, kFrom, 512));
  ASSERT_GOOD(world().close_under_device(kTo));
  world().run_until([&] { return !world().device().progress()->hindrance.empty(); });
  EXPECT_FALSE(world().device().progress()->is_of_source);
  static_cast<void>(world().close());
}

// This is the state after a kill just before the migration's end.
TEST_P(MigratingDeviceTest, NothingMayBeLeftToCopy) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kTo, kFrom));
  await_moved();
  ASSERT_GOOD(world().close());
  ASSERT_GOOD(world().open(kTo, kFrom));
  EXPECT_EQ(world().device().progress()->left, 0u);
  ASSERT_NO_FATAL_FAILURE(check());
  ASSERT_GOOD(world().close());
}

// Blocks that a mount is about to free are not copied.
TEST_P(MigratingDeviceTest, NothingIsCopiedBeforeItIsTold) {
  ASSERT_NO_FATAL_FAILURE(fill());
  world().copies_at_once = false;
  ASSERT_GOOD(world().open(kTo, kFrom));
  world().pass(std::chrono::seconds(30));
  EXPECT_EQ(world().device().progress()->left, kBlocks);
  EXPECT_EQ(world().engine(kFrom).status().accesses, 0u);
  world().device().begin_copying();
  await_moved();
  ASSERT_GOOD(world().close());
}

TEST_P(MigratingDeviceTest, WhatIsDiscardedLeavesRoomAtOnce) {
  ASSERT_NO_FATAL_FAILURE(fill());
  world().copies_at_once = false;
  ASSERT_GOOD(world().open(kTo, kFrom));
  ASSERT_GOOD(world().write(1, 30));
  const auto before = world().device().room();
  world().device().discard(1);
  world().device().discard(2);
  const auto after = world().device().room();
  EXPECT_EQ(after.blocks + after.more, before.blocks + before.more + 2);
  world().pass(std::chrono::seconds(1));
  const auto later = world().device().room();
  EXPECT_EQ(later.blocks + later.more, after.blocks + after.more);
  ASSERT_GOOD(world().close());
}

// A request that waits for a copy of its block continues after the pause.
TEST_P(MigratingDeviceTest, APauseDoesNotWaitForWhatItHolds) {
  ASSERT_NO_FATAL_FAILURE(fill());
  bool asked = false, paused = false;
  std::optional<Result<Bytes>> content;
  world().filter = [&](Side side, const Bytes&) {
    if (side == kFrom && !std::exchange(asked, true))
      for (BlockId block = 0; block < kBlocks; ++block)  // one of them is being copied
        world().device().read(block, [&](Result<Bytes> read) {
          EXPECT_TRUE(read);
          content.emplace(std::move(read));
        });
    return true;
  };
  ASSERT_GOOD(world().open(kTo, kFrom));
  world().run_until([&] { return asked; });
  ASSERT_GOOD(world().pause());
  paused = true;
  ASSERT_GOOD(world().go_on(kTo, kFrom, 0));
  world().run_until([&] { return content.has_value(); });
  EXPECT_TRUE(paused);
  await_moved();
  ASSERT_GOOD(world().close());
}

// After one read the block is read from the new volume.
TEST_P(MigratingDeviceTest, AReadMovesItsBlock) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kTo, kFrom, 1));  // the copies take forever
  ASSERT_GOOD(world().read(5));
  world().run_until([&] { return world().device().progress()->left < kBlocks; });
  const auto before = world().engine(kFrom).status().accesses;
  const auto content = world().read(5);
  ASSERT_GOOD(content);
  EXPECT_EQ(*content, world().pattern(5, 2));
  EXPECT_EQ(world().engine(kFrom).status().accesses, before);
}

TEST_P(MigratingDeviceTest, RequestsWaitWhileItIsPaused) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kTo, kFrom, 1));
  ASSERT_GOOD(world().write(1, 30));
  ASSERT_GOOD(world().commit());
  ASSERT_GOOD(world().pause());
  EXPECT_FALSE(world().device().progress());
  int ended = 0;
  world().device().write(2, world().pattern(2, 31), [&](Status status) {
    EXPECT_TRUE(status);
    ++ended;
  });
  world().device().discard(1);
  world().device().read(1, [&](const Result<Bytes>& content) {
    ASSERT_GOOD(content);
    EXPECT_EQ(*content, Bytes(512));
    ++ended;
  });
  world().device().commit([&](Status status) {
    EXPECT_TRUE(status);
    ++ended;
  });
  world().pass(std::chrono::seconds(5));
  EXPECT_EQ(ended, 0);
  ASSERT_GOOD(world().go_on(kTo, kFrom, 1));
  world().run_until([&] { return ended == 3; });
  const auto content = world().read(2);
  ASSERT_GOOD(content);
  EXPECT_EQ(*content, world().pattern(2, 31));
}

TEST_P(MigratingDeviceTest, APauseInVainForgetsWhatWasDiscardedMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_GOOD(world().open(kTo, kFrom, 1));
  ASSERT_GOOD(world().write(1, 30));
  ASSERT_GOOD(world().commit());
  bool pausing = false, discarded = false, written = false;
  world().filter = [&](MigrationWorld::Side, const Bytes&) {
    if (pausing && !std::exchange(discarded, true)) world().device().discard(1);
    return false;
  };
  world().device().write(2, world().pattern(2, 31), [&](Status status) {
    EXPECT_TRUE(status);
    written = true;
  });
  world().pass(std::chrono::seconds(1));
  pausing = true;
  const Status paused = world().pause();
  ASSERT_FALSE(paused);
  EXPECT_EQ(paused.error().code, Errc::unreachable);
  EXPECT_TRUE(discarded);
  world().filter = nullptr;
  world().run_until([&] { return written; });
  ASSERT_GOOD(world().write(1, 40));
  ASSERT_GOOD(world().commit());
  ASSERT_GOOD(world().pause());
  ASSERT_GOOD(world().go_on(kTo, kFrom, 1));
  const auto content = world().read(1);
  ASSERT_GOOD(content);
  EXPECT_EQ(*content, world().pattern(1, 40));
}

}  // namespace
}  // namespace s3oram
