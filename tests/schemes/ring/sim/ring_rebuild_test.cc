// Tests the rebuild of a ring whose client's disk is lost.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/harness/repetitions.h"
#include "tests/schemes/ring/sim/ring_driver.h"

namespace s3oram::ring::test {
namespace {

class RingRebuilds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RingRebuilds,
                         testing::Range(1, 1 + static_cast<int>(s3oram::test::repetitions(5))));

// Everything that was acknowledged is there, committed or not, wherever it lay; and no point is
// asked for twice.
TEST_P(RingRebuilds, FindWhateverWasAcknowledged) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  RingWorld world(kShapes[seed % std::size(kShapes)], seed);
  Observer observer(world);
  std::mt19937_64 random(seed);
  std::map<BlockId, Bytes> held;
  for (int life = 0; life < 3; ++life) {
    ASSERT_GOOD(world.open_client());
    for (int i = 0; i < 150; ++i) {
      const BlockId block = random() % 50;
      Bytes content = pattern(block, random(), 512);
      ASSERT_GOOD(world.write(block, content));
      held[block] = std::move(content);
    }
    world.kill(kClient);
    world.settle();
    world.lose_client();
    const auto rebuilt = world.rebuild_client();
    ASSERT_GOOD(rebuilt);
    EXPECT_EQ(rebuilt->damaged, 0u);
    EXPECT_EQ(rebuilt->state.places.mapped(), held.size());
    ASSERT_GOOD(world.open_client());
    for (const auto& [block, content] : held) {
      const auto got = world.read(block);
      ASSERT_GOOD(got);
      EXPECT_EQ(*got, content) << "block " << block;
    }
    ASSERT_GOOD(world.close_client());
  }
  EXPECT_EQ(observer.repeated, 0u);
}

TEST(RingRebuild, NoticesRowsThatWereAltered) {
  RingWorld world(small_ring(4, 3, 1), 5);
  ASSERT_GOOD(world.open_client());
  for (BlockId block = 0; block < 20; ++block)
    ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
  ASSERT_GOOD(world.close_client());
  world.lose_client();
  Bytes altered;
  bool is_first = true;
  Altering<FetchRowsAnswer> once(world, MessageType::fetch_rows, [&](FetchRowsAnswer& answer) {
    altered.assign(answer.rows.begin(), answer.rows.end());
    if (std::exchange(is_first, false)) altered[1] ^= 1;
    answer.rows = altered;
  });
  const auto rebuilt = world.rebuild_client();
  ASSERT_GOOD(rebuilt);
  EXPECT_EQ(rebuilt->damaged, 1u);
}

/// A world whose client is lost after some of its blocks were written again.
class RingLostWrites : public testing::Test {
 protected:
  static constexpr BlockId kBlocks = 20;
  void SetUp() override {
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < kBlocks; ++block) write(block, 1);
    world.settle();
  }
  void write(BlockId block, std::uint64_t generation) {
    ASSERT_GOOD(world.write(block, pattern(block, generation, 512)));
  }
  /// The state as the client knows it, which is then lost.
  RingState::Loaded lose() {
    EXPECT_TRUE(world.close_client());
    auto loaded = RingState::open("vault.db", world.disk(kClient))->load(world.params());
    EXPECT_TRUE(loaded);
    world.lose_client();
    return std::move(*loaded);
  }
  RingWorld world{small_ring(4, 3, 2), 12};
  const Params params{world.params()};
};

// A block in the tree was written again, and the log slot of that write has decayed. The block's
// older version is still in the tree, and must not come back unreported.
TEST_F(RingLostWrites, AreNamed) {
  ASSERT_GOOD(world.close_client());
  auto before = RingState::open("vault.db", world.disk(kClient))->load(world.params());
  ASSERT_GOOD(before);
  BlockId block = 0;
  while (before->places.get(block).kind != Place::Kind::tree) ASSERT_LT(++block, kBlocks);
  ASSERT_GOOD(world.open_client());
  write(block, 2);
  const auto known = lose();
  const Place place = known.places.get(block);
  ASSERT_EQ(place.kind, Place::Kind::top);
  ASSERT_GOOD(world.stop_server());
  world.disk(kServer).rot(
      "slots",
      params.slot_of(place.turn) * std::uint64_t{params.row_size + BucketVersion::kTrailer} + 99,
      0x20);
  world.start_server();
  const auto rebuilt = world.rebuild_client();
  ASSERT_GOOD(rebuilt);
  EXPECT_EQ(rebuilt->damaged, 1u);
  EXPECT_EQ(rebuilt->suspect, std::set{block});
  // fsck names the block's file until the block is read or written.
  const auto restored = RingState::open("vault.db", world.disk(kClient))->load(world.params());
  ASSERT_GOOD(restored);
  EXPECT_EQ(restored->unreadable, std::set{block});
  ASSERT_GOOD(world.open_client());
  for (BlockId each = 0; each < kBlocks; ++each) {
    const auto got = world.read(each);
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, pattern(each, 1, 512));
  }
}

// A block that has left the top has the same version in its bucket and still in the log.
TEST_F(RingLostWrites, AreNotThoseOfBlocksThatHaveLeftTheTop) {
  const auto known = lose();
  const auto rebuilt = world.rebuild_client();
  ASSERT_GOOD(rebuilt);
  unsigned in_tree = 0;
  for (BlockId block = 0; block < kBlocks; ++block) {
    const Place before = known.places.get(block), after = rebuilt->state.places.get(block);
    EXPECT_EQ(after.kind, before.kind) << "block " << block;
    EXPECT_EQ(after.version, before.version) << "block " << block;
    in_tree += before.kind == Place::Kind::tree;
  }
  EXPECT_GT(in_tree, 0u);
}

// The server returns the content that a slot had one round before.
TEST_F(RingLostWrites, AreMissedWhereOlderOnesAreServed) {
  for (Turn turn = kBlocks; turn < 3 * params.log_slots; ++turn) write(turn % kBlocks, 1);
  lose();
  Altering<ReadLogAnswer> older(world, MessageType::read_log, [&](ReadLogAnswer& answer) {
    for (LoggedBlock& logged : answer.slots)
      if (logged.access != 0 && logged.turn == 2 * params.log_slots + 1)
        logged.turn -= params.log_slots;
  });
  const auto rebuilt = world.rebuild_client();
  ASSERT_GOOD(rebuilt);
  EXPECT_EQ(rebuilt->damaged, 1u);
}

// Accesses had asked, but not written, when the client was lost. No rebuild, now or later, reports
// their turns as missing.
TEST_F(RingLostWrites, AreNotThoseOfAccessesUnderWay) {
  world.network.filter = [](Party from, Party, const Bytes& message) {
    return from != kClient || type_of(message) != MessageType::write_root;
  };
  for (BlockId block = 0; block < 4; ++block)
    world.engine().write(block, pattern(block, 2, 512), [](Status) {});
  world.settle();
  world.kill(kClient);
  world.settle();
  world.network.filter = {};
  for (int life = 0; life < 2; ++life) {
    world.lose_client();
    const auto rebuilt = world.rebuild_client();
    ASSERT_GOOD(rebuilt);
    EXPECT_EQ(rebuilt->damaged, 0u);
    ASSERT_GOOD(world.open_client());
    for (BlockId i = 0; i < params.log_slots / 2; ++i) write(i % kBlocks, 1);
    world.kill(kClient);
    world.settle();
  }
}

// A server denies that it was asked, and a client does not believe it.
TEST(RingRebuild, AsksForNoPointAgainWhateverTheServerSays) {
  const auto repeated = [](RingRebuild::Asked asked) {
    RingWorld world(small_ring(8, 6, 2), 3);
    Observer observer(world);
    EXPECT_TRUE(world.open_client());
    for (BlockId i = 0; i < 200; ++i) EXPECT_TRUE(world.write(i % 40, pattern(i % 40, 1, 512)));
    EXPECT_TRUE(world.close_client());
    world.lose_client();
    {
      Altering<LayoutAnswer> denying(world, MessageType::layout, [](LayoutAnswer& answer) {
        for (HeldVersion& version : answer.versions) version.asked = {};
      });
      EXPECT_TRUE(world.rebuild_client(asked));
    }
    EXPECT_TRUE(world.open_client());
    for (BlockId block = 0; block < 40; ++block) {
      const auto got = world.read(block);
      EXPECT_TRUE(got && *got == pattern(block, 1, 512)) << "block " << block;
    }
    return observer.repeated;
  };
  EXPECT_GT(repeated(RingRebuild::Asked::as_server_says), 0u);
  EXPECT_EQ(repeated(RingRebuild::Asked::everything), 0u);
}

/// A world whose client is lost, and the answers that a server can give it then.
class RingLies : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < 20; ++block)
      ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
    ASSERT_GOOD(world.close_client());
    ASSERT_GOOD(world.open_client());
    ASSERT_GOOD(world.write(0, pattern(0, 1, 512)));
    ASSERT_GOOD(world.close_client());
    world.lose_client();
  }
  template <class Answer>
  void expect_refused(std::function<void(Answer&)> lie, MessageType type) {
    Altering<Answer> altering(world, type, std::move(lie));
    const auto rebuilt = world.rebuild_client();
    ASSERT_FALSE(rebuilt);
    EXPECT_EQ(rebuilt.error().code, Errc::corrupt) << rebuilt.error().message;
  }
  RingWorld world{small_ring(4, 3, 1), 5};
};

TEST_F(RingLies, AboutTurnsAreRefused) {
  expect_refused<SurveyAnswer>([](SurveyAnswer& answer) { answer.asked = ~Turn{0}; },
                               MessageType::survey);
  expect_refused<SurveyAnswer>([](SurveyAnswer& answer) { answer.asked += 1000000; },
                               MessageType::survey);
}

TEST_F(RingLies, AboutTheLogAreRefused) {
  const Turn log = Params(world.params()).log_slots;
  expect_refused<ReadLogAnswer>([](ReadLogAnswer& answer) { answer.slots[0].turn = 1; },
                                MessageType::read_log);
  expect_refused<ReadLogAnswer>([&](ReadLogAnswer& answer) { answer.slots[0].turn += log << 30; },
                                MessageType::read_log);
}

TEST_F(RingLies, AboutBucketsAreRefused) {
  expect_refused<LayoutAnswer>(
      [](LayoutAnswer& answer) {
        if (!answer.versions.empty()) answer.versions.back().bucket = ~BucketIndex{0};
      },
      MessageType::layout);
}

// Access numbers of the next session would be those of an earlier one. The server reports each
// epoch as one less.
TEST_F(RingLies, AboutSessionsAreRefused) {
  world.network.filter = [this](Party from, Party to, const Bytes& message) {
    Bytes altered = message;
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    const MessageType type = type_of(message);
    if (from == kServer && type == MessageType::survey) {
      auto answer = decode<SurveyAnswer>(body).value();
      --answer.session.epoch;
      altered = encode(answer);
    } else if (from == kClient && type == MessageType::open) {
      auto request = decode<OpenRequest>(body).value();
      for (Session& session : request.known) ++session.epoch;
      ++request.next.epoch;
      altered = encode(request);
    } else if (from == kClient && type != MessageType::survey) {
      ++altered[Rpc::kHeaderSize];
    }
    std::ranges::copy(message.begin(), message.begin() + Rpc::kHeaderSize, altered.begin());
    world.network.deliver(from, to, std::move(altered));
    return false;
  };
  const auto rebuilt = world.rebuild_client();
  world.network.filter = {};
  ASSERT_FALSE(rebuilt);
  EXPECT_EQ(rebuilt.error().code, Errc::corrupt) << rebuilt.error().message;
}

}  // namespace
}  // namespace s3oram::ring::test
