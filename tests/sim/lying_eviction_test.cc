// A server that alters what it passes on in an eviction costs nothing but time: the client notices
// before it decides, and no block is lost or marked.
#include "oramcore/schemes/s3oram/protocol/repair_messages.h"
#include "tests/sim/filled_volume.h"

namespace s3oram {
namespace {

using test::pattern;

class LyingEviction : public testing::Test {
 protected:
  static constexpr BlockId kBlocks = 24;

  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    ASSERT_OK(cluster_.open_client());
    for (std::uint64_t generation = 1; generation <= 3; ++generation)
      for (BlockId block = 0; block < kBlocks; ++block)
        ASSERT_OK(cluster_.write(block, pattern(block, generation, test::kBlockSize)));
    cluster_.settle();
  }

  /// From now on what `liar` sends of `type` goes through `change`, unless that says false: then it
  /// goes as it is.
  void lie(Party liar, MessageType type, std::function<bool(Party to, Bytes&)> change) {
    cluster_.network.filter = [this, liar, type, change](Party from, Party to,
                                                         const Bytes& message) {
      if (from != liar || static_cast<MessageType>(message[2]) != type) return true;
      Bytes changed = message;
      if (!change(to, changed)) return true;
      ++lies_;
      cluster_.network.deliver(from, to, changed);
      return false;
    };
  }
  void tell_the_truth() { cluster_.network.filter = {}; }

  std::uint64_t evictions() { return cluster_.engine().status().evictions; }
  /// Accesses until so many evictions more have ended.
  void evict(std::uint64_t more) {
    const std::uint64_t end = evictions() + more;
    for (std::uint64_t i = 0; evictions() < end; ++i) {
      ASSERT_LT(i, 1000u);
      ASSERT_OK(cluster_.write(kBlocks + i % 4, pattern(i, 1, test::kBlockSize)));
      cluster_.settle();
    }
  }
  void expect_all_sound() {
    for (BlockId block = 0; block < kBlocks; ++block) {
      const auto content = cluster_.read(block);
      ASSERT_OK(content);
      ASSERT_EQ(*content, pattern(block, 3, test::kBlockSize)) << "block " << block;
    }
    EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  }

  test::Cluster cluster_{test::safe_volume(Evictor::shuffle, 4), 11};
  unsigned lies_ = 0;
};

bool is_subshare(const Bytes& message, std::uint16_t step) {
  const auto subshare = decode<SubshareRequest>(View(message).subspan(Rpc::kHeaderSize));
  return is_question(message) && subshare && subshare->step == step;
}

TEST_F(LyingEviction, OneBitOfAnyHopIsCaughtAndTheNextAttemptSucceeds) {
  struct Case {
    Party liar, to;
    std::uint16_t step;
  };
  for (const Case& each : {Case{1, 2, 0}, Case{2, 3, 1}, Case{3, 1, 2}, Case{1, 3, 2}})
    for (const std::size_t from_end : {1u, 700u}) {
      lies_ = 0;
      lie(each.liar, MessageType::subshare, [&](Party to, Bytes& message) {
        if (to != each.to || lies_ > 0 || !is_subshare(message, each.step)) return false;
        message[message.size() - from_end] ^= 0x10;
        return true;
      });
      ASSERT_NO_FATAL_FAILURE(evict(1));
      EXPECT_EQ(lies_, 1u) << "server " << int{each.liar} << " to " << int{each.to};
      tell_the_truth();
      ASSERT_NO_FATAL_FAILURE(expect_all_sound());
    }
  const auto healed = cluster_.run(cluster_.engine().scrub({}));
  ASSERT_OK(healed);
  EXPECT_EQ(healed->total() + healed->lost, 0u);
}

TEST_F(LyingEviction, AFalseReportIsCaught) {
  for (Party liar = 1; liar <= 3; ++liar) {
    lies_ = 0;
    lie(liar, MessageType::prepare, [&](Party, Bytes& message) {
      if (is_question(message) || lies_ > 0 || message.size() < Rpc::kHeaderSize + 64) return false;
      message.back() ^= 1;
      return true;
    });
    ASSERT_NO_FATAL_FAILURE(evict(1));
    EXPECT_EQ(lies_, 1u);
    tell_the_truth();
    ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  }
}

TEST_F(LyingEviction, AMissingReportIsNone) {
  lie(2, MessageType::prepare, [&](Party, Bytes& message) {
    if (is_question(message) || lies_ > 0 || message.size() < Rpc::kHeaderSize + 64) return false;
    message.resize(Rpc::kHeaderSize);
    return true;
  });
  ASSERT_NO_FATAL_FAILURE(evict(1));
  EXPECT_EQ(lies_, 1u);
  tell_the_truth();
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
}

// It lies in every attempt, whatever role it has: evictions stop, and what is there stays.
TEST_F(LyingEviction, AServerThatAlwaysLiesStopsEvictionsAndLosesNothing) {
  lie(1, MessageType::subshare, [](Party, Bytes& message) {
    if (!is_question(message)) return false;
    message.back() ^= 1;
    return true;
  });
  Status written;
  for (std::uint64_t i = 0; written && i < 100; ++i) {
    written = cluster_.write(kBlocks, pattern(kBlocks, i, test::kBlockSize));
    cluster_.settle();
  }
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::servers_disagree) << written.error().message;
  EXPECT_NE(cluster_.engine().status().failure.find("disagree"), std::string::npos);
  EXPECT_GE(lies_, 3u);

  tell_the_truth();
  cluster_.kill_client();
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  ASSERT_NO_FATAL_FAILURE(evict(3));
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
}

// It adds to a row of its choice, and takes it back where it guesses that the row goes to.
TEST_F(LyingEviction, MarkingTheBlockOfAnAccessIsCaught) {
  lie(1, MessageType::subshare, [&](Party to, Bytes& message) {
    if (to != 2 || lies_ >= 4 || !is_subshare(message, 0)) return false;
    for (std::size_t i = message.size() - 64; i < message.size(); ++i) message[i] ^= 0x55;
    return true;
  });
  ASSERT_NO_FATAL_FAILURE(evict(8));
  EXPECT_EQ(lies_, 4u);
  tell_the_truth();
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
}

}  // namespace
}  // namespace s3oram
