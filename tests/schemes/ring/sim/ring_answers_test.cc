// Tests what ring's engine does with answers that do not fit, and with refusals.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/schemes/ring/sim/ring_driver.h"

namespace s3oram::ring::test {
namespace {

/// A world of thirty blocks, most of them in the tree.
class RingAnswers : public testing::Test {
 protected:
  static constexpr BlockId kBlocks = 30, kNowhere = 1000;
  void SetUp() override {
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < kBlocks; ++block)
      ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
    world.settle();
  }
  RingState::Loaded state() {
    EXPECT_TRUE(world.close_client());
    auto opened = RingState::open("vault.db", world.disk(kClient));
    EXPECT_TRUE(opened);
    auto loaded = opened->load(world.params());
    EXPECT_TRUE(loaded);
    EXPECT_TRUE(world.open_client());
    world.settle();
    return std::move(*loaded);
  }
  void reopen() {
    world.kill(kClient);
    world.settle();
    ASSERT_GOOD(world.open_client());
  }
  void expect_all() {
    for (BlockId block = 0; block < kBlocks; ++block) {
      const auto got = world.read(block);
      ASSERT_GOOD(got);
      EXPECT_EQ(*got, pattern(block, 1, 512)) << "block " << block;
    }
    EXPECT_EQ(world.engine().status().unreadable, 0u);
  }
  RingWorld world{small_ring(4, 3, 1), 8};
};

TEST_F(RingAnswers, ThatDoNotFitOnceAreAskedForAgain) {
  for (const BlockId block : {BlockId{2}, kNowhere}) {
    unsigned left = 1;
    Altering<RetrieveAnswer> once(world, MessageType::retrieve, [&](RetrieveAnswer& answer) {
      if (left > 0 && !answer.values.empty())
        answer.values.front() = answer.values.front().first(9);
      left = 0;
    });
    const auto got = world.read(block);
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, block == 2 ? pattern(2, 1, 512) : Bytes(512));
    EXPECT_EQ(once.questions, 2u);
    world.settle();  // the read's write may have begun an eviction
  }
}

// An answer at any level is altered, whatever is wanted. The volume stops after the same number of
// requests, and nothing is given up.
TEST_F(RingAnswers, ThatNeverFitStopTheVolumeWhateverIsWanted) {
  const unsigned height = world.engine().status().height;
  unsigned stopped = 0;
  for (unsigned level = 1; level <= height; ++level)
    for (const bool wanted : {true, false}) {
      BlockId block = kNowhere;
      const auto present = state();
      for (BlockId each = 0; wanted && each < kBlocks; ++each) {
        const Place place = present.places.get(each);
        if (place.kind == Place::Kind::tree && place.level == level) block = each;
      }
      if (wanted && block == kNowhere) continue;
      SCOPED_TRACE(fmt::format("level {}, block {}", level, block));
      {
        Bytes altered;
        Altering<RetrieveAnswer> always(world, MessageType::retrieve, [&](RetrieveAnswer& answer) {
          if (answer.values.size() < level) return;
          ByteSpan& value = answer.values[level - 1];
          altered.assign(value.begin(), value.end());
          altered[100] ^= 1;
          value = altered;
        });
        const bool got = world.read(block).has_value();
        if (altered.empty()) continue;  // nothing has been written yet at that level of the path
        EXPECT_FALSE(got);
        EXPECT_EQ(always.questions, 3u);
        EXPECT_NE(world.engine().status().failure, "");
        ++stopped;
      }
      reopen();
      const auto got = world.read(block);
      ASSERT_GOOD(got);
      EXPECT_EQ(*got, wanted ? pattern(block, 1, 512) : Bytes(512));
    }
  EXPECT_GT(stopped, height);
  expect_all();
}

// If the server says that rows are lost, their bucket is written again, whatever is wanted. The
// same turn then asks for the block along the same path.
TEST_F(RingAnswers, OfLostRowsHaveTheBucketWrittenAgainWhateverIsWanted) {
  std::set<unsigned> levels;
  for (BlockId block = 0; block < kBlocks; block += 3)
    for (const BlockId wanted : {kNowhere, block}) {
      const Place place = state().places.get(block);
      if (place.kind != Place::Kind::tree) continue;
      levels.insert(place.level);
      SCOPED_TRACE(fmt::format("level {}, block {}", place.level, wanted));
      unsigned prepared = 0;
      world.network.observer = [&](Party, Party, const Bytes& message) {
        prepared += is_question(message) && type_of(message) == MessageType::prepare;
      };
      const std::uint64_t evictions = world.engine().status().evictions;
      bool is_first = true, was_lost = false;
      Altering<RetrieveAnswer> once(world, MessageType::retrieve, [&](RetrieveAnswer& answer) {
        if (!std::exchange(is_first, false) || answer.values.size() < place.level) return;
        answer.values[place.level - 1u] = {};
        was_lost = true;
      });
      const auto got = world.read(wanted);
      ASSERT_GOOD(got);
      EXPECT_EQ(*got, wanted == block ? pattern(block, 1, 512) : Bytes(512));
      EXPECT_EQ(once.questions, was_lost ? 2u : 1u);
      world.settle();
      world.network.observer = {};
      EXPECT_EQ(prepared - (world.engine().status().evictions - evictions), was_lost ? 1u : 0u);
    }
  EXPECT_GT(levels.size(), 1u);
  expect_all();
}

// If a server says each time that it was restarted, the client pauses before it asks again.
TEST_F(RingAnswers, ThatAskForASessionAgainAndAgainAreWaitedFor) {
  unsigned opened = 0;
  world.network.filter = [&](Party from, Party to, const Bytes& message) {
    opened += from == kClient && type_of(message) == MessageType::open;
    if (from == kClient || type_of(message) != MessageType::retrieve || opened > 1000) return true;
    Bytes refusal(message.begin(), message.begin() + Rpc::kHeaderSize);
    refusal[4] = static_cast<std::uint8_t>(Errc::need_open);
    world.network.deliver(from, to, std::move(refusal));
    return false;
  };
  bool ended = false;
  world.engine().read(2, [&](Result<Bytes> got) { ended = got.has_value(); });
  world.pass(std::chrono::seconds(20));
  EXPECT_GT(opened, 10u);
  EXPECT_LT(opened, 25u);
  world.network.filter = {};
  world.run_until([&] { return ended; });
}

// Whatever a server says each time, the client pauses before it asks again, and status shows it.
TEST_F(RingAnswers, ThatAreRefusedAgainAndAgainAreWaitedFor) {
  for (const Errc code : {Errc::need_open, Errc::unreachable, Errc::failed}) {
    SCOPED_TRACE(static_cast<int>(code));
    unsigned asked = 0;
    world.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (type_of(message) != MessageType::retrieve || asked > 1000) return true;
      asked += from == kClient;
      if (from == kClient) return true;
      Bytes refusal(message.begin(), message.begin() + Rpc::kHeaderSize);
      refusal[4] = static_cast<std::uint8_t>(code);
      world.network.deliver(from, to, std::move(refusal));
      return false;
    };
    bool ended = false;
    world.engine().read(2, [&](Result<Bytes> got) { ended = got.has_value(); });
    world.pass(std::chrono::seconds(20));
    EXPECT_GT(asked, 10u);
    EXPECT_LT(asked, 25u);
    EXPECT_TRUE(world.engine().status().servers.front().trouble);
    world.network.filter = {};
    world.run_until([&] { return ended; });
    world.settle();
    EXPECT_FALSE(world.engine().status().servers.front().trouble);
  }
}

// A server that says each time that it was restarted, but only when the tree is to grow, keeps it
// from growing. It is asked a few times for each eviction.
TEST_F(RingAnswers, ThatRefuseRoomAgainAndAgainCountAsRefusals) {
  unsigned asked = 0;
  world.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (type_of(message) != MessageType::reserve || asked > 1000) return true;
    asked += from == kClient;
    if (from == kClient) return true;
    Bytes refusal(message.begin(), message.begin() + Rpc::kHeaderSize);
    refusal[4] = static_cast<std::uint8_t>(Errc::need_open);
    world.network.deliver(from, to, std::move(refusal));
    return false;
  };
  Status written;
  for (BlockId block = kBlocks; written && block < 10 * kBlocks; ++block)
    written = world.write(block, pattern(block, 1, 512));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::disk_full) << written.error().message;
  EXPECT_GT(asked, 1u);
  EXPECT_LT(asked, 200u);
  world.network.filter = {};
  expect_all();
}

// If a server's rows are not what was stored, evictions stop, and nothing else is affected.
TEST_F(RingAnswers, OfEvictionsThatDoNotFitStopEvictionsAndGiveUpNothing) {
  {
    Bytes altered;
    Altering<FetchRowsAnswer> always(world, MessageType::fetch_rows, [&](FetchRowsAnswer& answer) {
      altered.assign(answer.rows.begin(), answer.rows.end());
      altered[10] ^= 1;
      answer.rows = altered;
    });
    for (BlockId block = 0; block < 3; ++block)
      ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
    world.run_until([&] { return world.engine().status().evictions_stopped.has_value(); });
    EXPECT_EQ(world.engine().status().failure, "");
  }
  world.run_until([&] { return !world.engine().status().evictions_stopped.has_value(); });
  expect_all();
}

// The same if nothing can be made of its answers.
TEST_F(RingAnswers, OfEvictionsThatCannotBeDecodedStopEvictions) {
  unsigned asked = 0;
  world.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (type_of(message) != MessageType::fetch_rows) return true;
    asked += from == kClient;
    if (from == kClient) return true;
    world.network.deliver(from, to, Bytes(message.begin(), message.begin() + Rpc::kHeaderSize + 1));
    return false;
  };
  for (BlockId block = 0; block < 3; ++block)
    ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
  const Duration begun = world.clock.now();
  world.run_until([&] { return world.engine().status().evictions_stopped.has_value(); });
  world.pass(std::chrono::seconds(20));
  const auto seconds = (world.clock.now() - begun) / std::chrono::seconds(1);
  EXPECT_LT(asked, 3 * (5 + seconds) * world.engine().status().height);
  EXPECT_EQ(world.engine().status().failure, "");
  world.network.filter = {};
  world.run_until([&] { return !world.engine().status().evictions_stopped.has_value(); });
  expect_all();
}

// An eviction sends all its requests together, so the time at which it continues shows nothing of
// what it finds.
TEST_F(RingAnswers, OfEvictionsAreAskedForAtOnce) {
  std::set<BucketIndex> asked;
  const unsigned levels = world.engine().status().height;  // levels from 1 on
  world.network.filter = [&](Party from, Party, const Bytes& message) {
    if (type_of(message) != MessageType::fetch_rows) return true;
    if (from != kClient) return false;
    const auto request = decode<FetchRowsRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
    if (request) asked.insert(request->bucket);
    return true;
  };
  for (BlockId block = 0; block < 3; ++block)
    ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
  world.settle();
  world.network.filter = {};
  EXPECT_GT(asked.size(), 1u);
  EXPECT_LE(asked.size(), levels);
  expect_all();
}

// While the rows of one eviction are on their way, the next one fetches its own, which are others.
TEST_F(RingAnswers, OfTwoEvictionsAreAskedForAtTheSameTime) {
  const std::uint32_t groups = Params(world.params()).groups();
  std::map<std::uint64_t, std::set<BucketIndex>> asked;  // by group
  world.network.filter = [&](Party from, Party, const Bytes& message) {
    if (type_of(message) != MessageType::fetch_rows) return true;
    if (from != kClient) return false;
    const auto request = decode<FetchRowsRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
    if (request) asked[request->bucket % groups].insert(request->bucket);
    return true;
  };
  for (BlockId block = 0; block < 6; ++block)
    ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
  world.settle();
  world.network.filter = {};
  EXPECT_EQ(asked.size(), 2u);
  expect_all();
}

// A rewrite that is done stays done, whatever happens to its release.
TEST_F(RingAnswers, ToAReleaseThatRefuseItEndTheVolumeAndNotTheEvictionAlone) {
  world.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != kClient || type_of(message) != MessageType::release || message.size() < 30)
      return true;
    world.network.deliver(from, to, Bytes(message.begin(), message.end() - 3));
    return false;
  };
  for (BlockId block = 0; block < 3; ++block) {
    auto written = world.write(block, pattern(block, 1, 512));
    if (!written) break;
  }
  world.run_until([&] { return !world.engine().status().failure.empty(); });
  world.network.filter = {};
  reopen();
  expect_all();
}

}  // namespace
}  // namespace s3oram::ring::test
