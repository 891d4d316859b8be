// Tests the turns at which blocks of the top are logged again.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>

#include "tests/schemes/ring/sim/ring_driver.h"

namespace s3oram::ring::test {
namespace {

// With small buckets, blocks stay in the top for a long time. They are logged again in time.
TEST(RingLog, HasEveryBlockOfTheTop) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    const VolumeParams params = small_ring(1, 4, 1);
    RingWorld world(params, seed);
    ASSERT_GOOD(world.open_client());
    // Most blocks are written once, and the same few again and again.
    std::mt19937_64 random(seed);
    for (unsigned i = 0; i < 300; ++i)
      ASSERT_GOOD(world.write(i < 40 ? i : random() % 3, pattern(1, i, 512)));
    ASSERT_GOOD(world.close_client());

    auto state = RingState::open("vault.db", world.disk(kClient));
    ASSERT_GOOD(state);
    const Params numbers(params);
    const auto loaded = state->load(params);
    ASSERT_GOOD(loaded);
    for (const auto& [turn, block] : loaded->places.top())
      EXPECT_GE(turn + numbers.log_slots, loaded->tree.written) << "block " << block;
  }
}

/// A volume whose vault.db says that accesses were cut short when a block in the top was about to
/// be logged again.
class RingTurns : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GOOD(world.open_client());
    // Enough for two rounds of the log, and some that no eviction has met yet.
    for (BlockId i = 0; i < 2 * params.log_slots + 4; ++i)
      ASSERT_GOOD(world.write(i % 7, pattern(i % 7, 1, 512)));
    ASSERT_NO_FATAL_FAILURE(close_and_load());
  }
  void close_and_load() {
    world.settle();  // no eviction is due that could take the block away
    ASSERT_GOOD(world.close_client());
    auto opened = RingState::open("vault.db", world.disk(kClient));
    ASSERT_GOOD(opened);
    state.emplace(std::move(*opened));
    auto loaded = state->load(world.params());
    ASSERT_GOOD(loaded);
    tree = loaded->tree;
    ASSERT_GE(loaded->places.top().size(), 2u);
    block = loaded->places.top().begin()->second;
    place = loaded->places.get(block);
    second = std::next(loaded->places.top().begin())->second;
    place_of_second = loaded->places.get(second);
    for (const auto& [turn, each] : loaded->places.top())
      EXPECT_TRUE(each == block || turn > tree.written - params.log_slots + 4);
  }
  void open_and_read() {
    ASSERT_GOOD(state->commit(tree, changes, {}));
    state.reset();
    ASSERT_GOOD(world.open_client());
    const auto got = world.read(block);
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, pattern(block, 1, 512));
  }
  RingWorld world{small_ring(8, 6, 1), 4};
  const Params params{world.params()};
  std::optional<RingState> state;
  RingTree tree;
  RingChanges changes;
  BlockId block = 0, second = 0;  // the oldest blocks of the top
  Place place, place_of_second;
};

// The turn that was to log the block again had no record yet, but later turns had, up to the one
// that reuses the block's slot in the log.
TEST_F(RingTurns, ThatWereToLogABlockAgainDoSoAfterACrash) {
  constexpr Turn kLeft = 3;
  place.turn = tree.written + kLeft - params.log_slots;
  changes.places[block] = place;
  for (Turn turn = tree.written + 1; turn <= tree.written + kLeft; ++turn)
    changes.records[turn] = TurnRecord{.block = kNoBlock, .leaf = turn, .asks = {}};
  open_and_read();
}

// The access that reuses a block's slot in the log may be the block's own.
TEST_F(RingTurns, DoNotWaitForThemselves) {
  place.turn = tree.written - params.log_slots;
  changes.places[block] = place;
  changes.records[tree.written] = TurnRecord{.block = block, .leaf = place.leaf, .asks = {}};
  open_and_read();
}

// Turns go on, and soon reuse the block's slot in the log.
TEST_F(RingTurns, LogABlockAgainBeforeItsSlotIsReused) {
  constexpr Turn kLeft = 3;
  place.turn = tree.written + kLeft - params.log_slots;
  changes.places[block] = place;
  ASSERT_GOOD(state->commit(tree, changes, {}));
  state.reset();
  ASSERT_GOOD(world.open_client());
  const BlockId other = (block + 1) % 7;
  for (Turn i = 0; i <= kLeft; ++i) ASSERT_GOOD(world.write(other, pattern(other, 1, 512)));
  ASSERT_GOOD(world.commit());
  world.kill(kClient);
  const auto loaded = RingState::open("vault.db", world.disk(kClient))->load(world.params());
  ASSERT_GOOD(loaded);
  const Place now = loaded->places.get(block);
  ASSERT_EQ(now.kind, Place::Kind::top);
  EXPECT_GE(now.turn + params.log_slots, loaded->tree.written)
      << "was " << place.turn << ", is " << now.turn;
  EXPECT_EQ(now.leaf, place.leaf) << "the client's own access does not show it";
}

/// The last turn of a block comes next. It belongs to the client: because another block's last turn
/// follows, or (the parameter) by its number.
class LastTurnOfAWantedBlock : public RingTurns, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(RingTurns::SetUp());
    if (GetParam()) {
      ASSERT_NO_FATAL_FAILURE(go_to_maintenance());
    }
    place.turn = tree.written - params.log_slots;
    changes.places[block] = place;
    place_of_second.turn = place.turn + 1;
    if (!GetParam()) changes.places[second] = place_of_second;
  }
  void go_to_maintenance() {
    for (Turn left = 1; left > 0;) {
      left = (2 * kMaintenanceEvery - 1 - tree.written % kMaintenanceEvery) % kMaintenanceEvery;
      state.reset();
      ASSERT_GOOD(world.open_client());
      for (Turn i = 0; i < (left + 1) / 2; ++i)  // some turns may belong to the client
        ASSERT_GOOD(world.write((tree.written + i) % 7, pattern((tree.written + i) % 7, 1, 512)));
      ASSERT_NO_FATAL_FAILURE(close_and_load());
    }
  }
  void expect_content(BlockId each) {
    const auto got = world.read(each);
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, pattern(each, 1, 512));
  }
  bool ended = false;
};
INSTANTIATE_TEST_SUITE_P(Maintains, LastTurnOfAWantedBlock, testing::Bool());

TEST_P(LastTurnOfAWantedBlock, LogsIt) {
  ASSERT_GOOD(state->commit(tree, changes, {}));
  state.reset();
  ASSERT_GOOD(world.open_client());
  world.engine().read(block, [&](const Result<Bytes>& got) {
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, pattern(block, 1, 512));
    ended = true;
  });
  world.pass(std::chrono::minutes(1));
  ASSERT_TRUE(ended) << "the volume waits for itself";
  ASSERT_NO_FATAL_FAILURE(expect_content(second));
  ASSERT_GOOD(world.close_client());
}

// A version that gave such turns to other blocks has recorded one. The server may have been asked
// along its path, which may be that of the other block's leaf.
TEST_P(LastTurnOfAWantedBlock, LogsItThoughAnotherIsRecorded) {
  for (const bool is_shown : {true, false}) {
    SCOPED_TRACE(is_shown);
    const auto disk = world.disk(kClient).image();
    const auto server = world.disk(1).image();
    const Leaf shown = place_of_second.leaf + (is_shown ? 0 : 1);
    changes.records[tree.written] = TurnRecord{.block = second, .leaf = shown, .asks = {}};
    ASSERT_GOOD(state->commit(tree, changes, {}));
    state.reset();
    ASSERT_GOOD(world.open_client());
    ASSERT_GOOD(world.commit());
    world.kill(kClient);
    auto loaded = RingState::open("vault.db", world.disk(kClient))->load(world.params());
    ASSERT_GOOD(loaded);
    EXPECT_GT(loaded->tree.written, tree.written);
    EXPECT_NE(loaded->places.get(second).leaf, shown);
    ASSERT_GOOD(world.open_client());
    ASSERT_NO_FATAL_FAILURE(expect_content(block));
    ASSERT_NO_FATAL_FAILURE(expect_content(second));
    ASSERT_GOOD(world.close_client());
    ASSERT_GOOD(world.stop_server());
    world.replace_disk(kClient, disk);
    world.replace_disk(1, server);
    world.start_server();
    auto opened = RingState::open("vault.db", world.disk(kClient));
    ASSERT_GOOD(opened);
    state.emplace(std::move(*opened));
  }
}

// A block that was given up has no last turn. The next mount could wait for it, because it tries
// each block again.
TEST_F(RingTurns, DoNotWaitForABlockThatWasGivenUp) {
  place.turn = tree.written - params.log_slots;
  changes.places[block] = place;
  changes.unreadable[block] = true;
  changes.records[tree.written] =
      TurnRecord{.block = second, .leaf = place_of_second.leaf, .asks = {}};
  ASSERT_GOOD(state->commit(tree, changes, {}));
  state.reset();
  ASSERT_GOOD(world.open_client());
  const auto got = world.read(second);
  ASSERT_GOOD(got);
  EXPECT_EQ(*got, pattern(second, 1, 512));
}

// A block is discarded at any moment while the client logs it again.
TEST_F(RingTurns, BringNoDiscardedBlockBack) {
  place.turn = tree.written + 1 - params.log_slots;
  changes.places[block] = place;
  ASSERT_GOOD(state->commit(tree, changes, {}));
  state.reset();
  const auto image = world.disk(kClient).image();
  const auto server = world.disk(1).image();
  ASSERT_GOOD(world.stop_server());
  unsigned moments = 0;
  for (unsigned moment = 0;; ++moment) {
    SCOPED_TRACE(moment);
    world.replace_disk(kClient, image);
    world.replace_disk(1, server);
    world.start_server();
    ASSERT_GOOD(world.open_client());
    unsigned messages = 0;
    world.network.observer = [&](Party, Party, const Bytes&) {
      if (messages++ == moment) world.engine().discard(block);
    };
    const BlockId other = (block + 1) % 7;
    ASSERT_GOOD(world.write(other, pattern(other, 2, 512)));
    world.settle();
    world.network.observer = {};
    if (messages <= moment) break;
    ++moments;
    const auto got = world.read(block);
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, Bytes(512));
    ASSERT_GOOD(world.close_client());
    ASSERT_GOOD(world.stop_server());
  }
  EXPECT_GT(moments, 4u);
}

/// The last turns in which a block of the top can be logged again. Its slot of top.cache decays, so
/// that it has to be restored from the log first.
class LastTurns : public RingTurns, public testing::WithParamInterface<Turn> {
 protected:
  void SetUp() override {
    std::map<Turn, Bytes> logged;
    world.network.observer = [&](Party, Party, const Bytes& message) {
      if (!is_question(message) || type_of(message) != WriteLogRequest::kType) return;
      const auto write = decode<WriteLogRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      logged[write.value().turn] = Bytes(write->sealed.begin(), write->sealed.end());
    };
    ASSERT_NO_FATAL_FAILURE(RingTurns::SetUp());
    world.network.observer = {};
    sealed = logged.at(place.turn);
    place.turn = tree.written + GetParam() - params.log_slots;
    changes.places[block] = place;
    ASSERT_GOOD(state->commit(tree, changes, {}));
    state.reset();
    // The server's log agrees.
    log.emplace(world, MessageType::read_log, [this](ReadLogAnswer& answer) {
      for (LoggedBlock& slot : answer.slots)
        if (slot.turn == place.turn)
          slot = {.access = place.version, .turn = place.turn, .sealed = sealed};
    });
    ASSERT_GOOD(world.open_client());
    world.disk(kClient).rot("top.cache", place.cache_slot * std::uint64_t{params.slot_size} + 99,
                            1);
  }
  /// Runs accesses that have begun at the same time; `ended` counts them.
  void until_ended(unsigned begun) {
    const Duration limit = world.clock.now() + std::chrono::minutes(1);
    world.run_until([&] { return ended == begun || world.clock.now() > limit; });
    ASSERT_EQ(ended, begun) << "the volume waits for itself";
  }
  void expect_content() {
    const auto got = world.read(block);
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, pattern(block, 1, 512));
    ASSERT_GOOD(world.close_client());
  }
  Bytes sealed;
  std::optional<Altering<ReadLogAnswer>> log;
  unsigned ended = 0;
};
INSTANTIATE_TEST_SUITE_P(Left, LastTurns, testing::Range<Turn>(0, 5));

TEST_P(LastTurns, WaitForABlockThatTheCacheHasLost) {
  constexpr unsigned kWrites = 6;
  for (unsigned i = 1; i <= kWrites; ++i) {
    const BlockId other = (block + i) % 7;
    world.engine().write(other, pattern(other, 2, 512), [this](const Status& status) {
      EXPECT_TRUE(status);
      ++ended;
    });
  }
  ASSERT_NO_FATAL_FAILURE(until_ended(kWrites));
  ASSERT_NO_FATAL_FAILURE(expect_content());
}

TEST_P(LastTurns, ReadABlockThatTheCacheHasLost) {
  world.engine().read(block, [this](const Result<Bytes>&) { ++ended; });
  for (unsigned i = 1; i <= GetParam(); ++i) {
    const BlockId other = (block + i) % 7;
    world.engine().write(other, pattern(other, 2, 512), [this](const Status&) { ++ended; });
  }
  ASSERT_NO_FATAL_FAILURE(until_ended(1 + static_cast<unsigned>(GetParam())));
  ASSERT_NO_FATAL_FAILURE(expect_content());
}

// A server sends something that is not the log whenever it is read.
TEST_P(LastTurns, EndTheVolumeIfTheLogNeverComes) {
  log.emplace(world, MessageType::read_log, [](ReadLogAnswer& answer) { answer.slots.clear(); });
  const Duration begun = world.clock.now();
  for (unsigned i = 1; i <= GetParam() + 1; ++i) {
    const BlockId other = (block + i) % 7;
    world.engine().write(other, pattern(other, 2, 512), [this](const Status&) { ++ended; });
  }
  world.run_until([&] { return ended == GetParam() + 1 || log->questions > 100; });
  EXPECT_EQ(log->questions, 3u);
  EXPECT_GE(world.clock.now() - begun, 2 * Servers::kRetryAfter);
  EXPECT_NE(world.engine().status().failure, "");
  log.reset();
  world.kill(kClient);
}

// A block that was given up in an earlier mount is tried again in the next one, but only once.
TEST_F(RingTurns, AreNotAllSpentOnABlockThatNothingCanRestore) {
  place.turn = tree.written - params.log_slots - 5;
  changes.places[block] = place;
  ASSERT_GOOD(state->commit(tree, changes, {}));
  state.reset();
  ASSERT_GOOD(world.open_client());
  world.disk(kClient).rot("top.cache", place.cache_slot * std::uint64_t{params.slot_size} + 99, 1);
  unsigned read = 0;
  world.network.observer = [&](Party, Party, const Bytes& message) {
    read += is_question(message) && type_of(message) == MessageType::read_log &&
            decode<ReadLogRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize))->first == 0;
  };
  for (unsigned i = 0; i < 30; ++i) {
    const BlockId other = (block + 1 + i % 5) % 7;
    ASSERT_GOOD(world.write(other, pattern(other, 1, 512)));
    world.settle();
  }
  world.network.observer = {};
  EXPECT_EQ(read, 1u);
  EXPECT_EQ(world.engine().status().unreadable, 1u);
}

}  // namespace
}  // namespace s3oram::ring::test
