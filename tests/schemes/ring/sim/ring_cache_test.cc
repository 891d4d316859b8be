// Tests top.cache on a disk that is full, fails or has bad places, and the log that stands in for
// it.
#include <gtest/gtest.h>

#include "tests/schemes/ring/sim/ring_driver.h"

namespace s3oram::ring::test {
namespace {

TEST(RingCache, NeedsNoMoreRoomOnAFullDisk) {
  RingWorld world(small_ring(8, 6, 2), 6);
  Driver driver(world, 6);
  ASSERT_GOOD(world.open_client());
  const auto pages = world.disk(kClient).image().files.at("top.cache").pages;
  EXPECT_GE(static_cast<std::uint64_t>(std::ranges::count(pages, true)) * s3oram::test::kDiskPage,
            cache_bytes(world.params()))
      << "the room for everything that the top can hold";
  driver.operate(60, 30, 4);
  ASSERT_GOOD(world.commit());
  world.disk(kClient).leave_space(0);
  const Duration begun = world.clock.now();
  for (int round = 0; round < 2; ++round) driver.check_all(30);
  EXPECT_LT(world.clock.now() - begun, std::chrono::seconds(30)) << "it waited for room";
  world.disk(kClient).leave_space({});
  ASSERT_GOOD(world.close_client());
}

TEST(RingCache, UsesNoPlaceThatCannotBeWritten) {
  RingWorld world(small_ring(8, 6, 2), 7);
  Driver driver(world, 7);
  unsigned refused = 0;
  world.cache_takes = [&](std::uint64_t offset) {
    const bool is_bad = offset / Params(world.params()).slot_size % 5 == 2;
    refused += is_bad;
    return !is_bad;
  };
  ASSERT_GOOD(world.open_client());
  driver.operate(300, 30, 4);
  driver.check_all(30);
  const unsigned places = std::exchange(refused, 0u);
  EXPECT_GT(places, 0u);
  driver.operate(300, 30, 4);
  EXPECT_LE(refused, places) << "a bad place was tried again";
  ASSERT_GOOD(world.close_client());
  // The bad places do no harm when the whole cache is rebuilt, either.
  ASSERT_GOOD((*world.disk(kClient).open("top.cache"))->truncate(0));
  ASSERT_GOOD(world.open_client());
  driver.check_all(30);
  ASSERT_GOOD(world.close_client());
  ASSERT_GOOD(world.open_client());
  driver.check_all(30);
}

/// A disk that cannot sync top.cache. The log at the server has everything, so the volume goes on.
class RingCacheSyncs : public testing::Test {
 protected:
  static constexpr BlockId kBlocks = 30;
  void SetUp() override {
    world.cache_syncs = [this] { return ++syncs % 2 == 0 ? even : odd; };
    world.network.observer = [this](Party, Party, const Bytes& message) {
      if (!is_question(message) || type_of(message) != MessageType::read_log) return;
      read += decode<ReadLogRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize))->count;
    };
    ASSERT_GOOD(world.open_client());
    write(kBlocks);
  }
  void write(unsigned count) {
    for (unsigned i = 0; i < count; ++i, ++next) {
      ASSERT_GOOD(world.write(next % kBlocks, pattern(next % kBlocks, next / kBlocks, 512)));
      world.settle();
    }
  }
  void expect_all() {
    for (BlockId block = 0; block < kBlocks; ++block) {
      const auto got = world.read(block);
      ASSERT_GOOD(got);
      EXPECT_EQ(*got, pattern(block, (next - 1 - block) / kBlocks, 512)) << "block " << block;
    }
    EXPECT_EQ(world.engine().status().unreadable, 0u);
  }
  void cut_and_open() {
    world.cut(kClient);
    world.settle();
    read = 0;
    ASSERT_GOOD(world.open_client());
  }
  std::string trouble() { return world.engine().status().top->trouble; }

  RingWorld world{small_ring(8, 6, 2), 17};
  const Params params{world.params()};
  bool even = true, odd = true;
  unsigned syncs = 0, next = 0;
  std::uint64_t read = 0;
};

TEST_F(RingCacheSyncs, WriteAgainWhatOneThatFailedMayHaveLost) {
  for (int round = 0; round < 6; ++round) {
    even = odd = false;
    write(params.evict_every);
    EXPECT_NE(trouble(), "");
    even = odd = true;
    EXPECT_EQ(world.engine().status().failure, "");
    read = 0;
    write(2 * params.evict_every);
    EXPECT_EQ(trouble(), "");
    EXPECT_GE(read, params.evict_every) << "what may be lost is not read from the log";
    ASSERT_GOOD(world.commit());
    cut_and_open();
    // A success that did not make these writes durable would have the whole log read here.
    EXPECT_LT(read, params.log_slots / 2);
    expect_all();
  }
}

TEST_F(RingCacheSyncs, AreNotNeeded) {
  even = odd = false;
  read = 0;
  write(4 * params.log_slots);
  EXPECT_EQ(world.engine().status().failure, "");
  EXPECT_NE(trouble(), "");
  EXPECT_EQ(world.engine().status().top->not_synced, params.log_slots);
  EXPECT_LT(read, 4 * params.log_slots + 2 * params.log_slots) << "it reads the log too often";
  expect_all();
  ASSERT_GOOD(world.commit());
  cut_and_open();
  expect_all();
  EXPECT_NE(trouble(), "");
  ASSERT_GOOD(world.close_client());
  even = odd = true;
  ASSERT_GOOD(world.open_client());
  EXPECT_EQ(trouble(), "");
  expect_all();
}

// What such a sync may have lost would be read from the server's log, and the server is away.
TEST_F(RingCacheSyncs, ThatFailedHoldNoUnmountUp) {
  even = odd = false;
  write(params.evict_every);
  EXPECT_NE(trouble(), "");
  even = odd = true;
  ASSERT_GOOD(world.stop_server());
  const Duration begun = world.clock.now();
  ASSERT_GOOD(world.close_client());
  EXPECT_LT(world.clock.now() - begun, std::chrono::seconds(30));
  world.start_server();
  ASSERT_GOOD(world.open_client());
  expect_all();
}

// Every second one fails, and each success covers only what was written again.
TEST_F(RingCacheSyncs, ThatFailNowAndThenLoseNothing) {
  odd = false;
  for (int round = 0; round < 8; ++round) {
    write(50);
    ASSERT_GOOD(world.commit());
    cut_and_open();
    expect_all();
  }
}

/// Writes whose places in the cache are not durable yet. One of them is dead, because its block was
/// written again.
class RingLogs : public testing::Test {
 protected:
  static constexpr BlockId kBlocks[] = {1, 2, 1, 3};
  void SetUp() override {
    ASSERT_GOOD(world.open_client());
    for (const BlockId block : kBlocks) ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
    ASSERT_GOOD(world.commit());
  }
  void expect_all() {
    for (const BlockId block : kBlocks) {
      const auto got = world.read(block);
      ASSERT_GOOD(got);
      EXPECT_EQ(*got, pattern(block, 1, 512));
    }
  }
  RingWorld world{small_ring(8, 6, 2), 3};
};

// If a block were missed only when it is wanted, that would show which turn wrote it.
TEST_F(RingLogs, AreVerifiedAtOpeningWhateverIsNeeded) {
  world.cut(kClient);
  world.settle();
  for (std::size_t turn = 0; turn < std::size(kBlocks); ++turn) {
    Altering<ReadLogAnswer> without(world, MessageType::read_log,
                                    [&](ReadLogAnswer& answer) { answer.slots.at(turn) = {}; });
    const Status opened = world.open_client();
    ASSERT_FALSE(opened) << turn;
    EXPECT_EQ(opened.error().code, Errc::wrong_volume) << opened.error().message;
    EXPECT_EQ(without.questions, 3u);
  }
  ASSERT_GOOD(world.open_client());
  expect_all();
}

// The log is read when a slot of the cache has decayed, but not because the block is wanted.
TEST_F(RingLogs, AreReadForARottenCacheAtATurnThatEverybodyKnows) {
  unsigned read = 0;
  world.network.observer = [&](Party, Party, const Bytes& message) {
    read += is_question(message) && type_of(message) == MessageType::read_log;
  };
  ASSERT_GOOD(world.close_client());
  auto before = RingState::open("vault.db", world.disk(kClient))->load(world.params());
  ASSERT_GOOD(before);
  const Place place = before->places.get(2);
  ASSERT_EQ(place.kind, Place::Kind::top);
  const auto rot = [&](const Place& at) {
    world.disk(kClient).rot(
        "top.cache", at.cache_slot * std::uint64_t{Params(world.params()).slot_size} + 99, 1);
  };
  rot(place);  // found when the volume is opened
  ASSERT_GOOD(world.open_client());
  EXPECT_GT(std::exchange(read, 0u), 0u);
  rot(place);  // found later
  const auto got = world.read(2);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::corrupt);
  world.settle();
  EXPECT_EQ(read, 0u);
  ASSERT_GOOD(world.close_client());
  auto after = RingState::open("vault.db", world.disk(kClient))->load(world.params());
  ASSERT_GOOD(after);
  EXPECT_EQ(after->places.get(2).kind, Place::Kind::top);
  EXPECT_NE(after->places.get(2).leaf, place.leaf) << "a leaf that was shown before";
  ASSERT_GOOD(world.open_client());
  EXPECT_GT(std::exchange(read, 0u), 0u);
  rot(after->places.get(2));
  EXPECT_FALSE(world.read(2));
  EXPECT_EQ(read, 0u);
  for (int i = 0; i < 256; ++i) ASSERT_GOOD(world.write(3, pattern(3, 1, 512)));
  world.settle();
  EXPECT_GT(read, 0u);
  expect_all();
  EXPECT_EQ(world.engine().status().unreadable, 0u);
}

// What a server sends altered may still be there, so no block is given up because of it.
TEST_F(RingLogs, AreNotGivenUpWhenTheServerAltersThem) {
  unsigned left = 0;
  std::vector<Bytes> altered;
  Altering<ReadLogAnswer> lie(world, MessageType::read_log, [&](ReadLogAnswer& answer) {
    if (left == 0) return;
    --left;
    altered.assign(answer.slots.size(), {});
    for (std::size_t i = 0; i < altered.size(); ++i) {
      LoggedBlock& logged = answer.slots[i];
      altered[i].assign(logged.sealed.begin(), logged.sealed.end());
      if (!altered[i].empty()) altered[i].back() ^= 1;
      logged.sealed = altered[i];
    }
  });
  const auto lose_cache = [&] {
    ASSERT_GOOD(world.close_client());
    ASSERT_GOOD((*world.disk(kClient).open("top.cache"))->truncate(0));
  };
  left = 1;
  lose_cache();
  ASSERT_GOOD(world.open_client());
  EXPECT_EQ(lie.questions, 2u);
  expect_all();
  left = 100;
  lose_cache();
  const Status opened = world.open_client();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::wrong_volume) << opened.error().message;
  left = 0;
  ASSERT_GOOD(world.open_client());
  expect_all();
}

TEST_F(RingLogs, GiveBackACacheThatIsLost) {
  ASSERT_GOOD(world.close_client());
  ASSERT_GOOD((*world.disk(kClient).open("top.cache"))->truncate(0));
  ASSERT_GOOD(world.open_client());
  expect_all();
}

}  // namespace
}  // namespace s3oram::ring::test
