// Tests accesses during evictions. An access waits for an eviction only if both groups of the
// root's slots are full, and it reads the previous tree version until every server has the new one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::pattern;

constexpr std::uint16_t kEvery = 4;

class Overlap : public test::EachEvictor {
 protected:
  void SetUp() override {
    cluster_.network.filter = [this](Party from, Party to, const Bytes& message) {
      if (!is_question(message)) return !(only_sums_ && is_empty_product(message));
      if (const auto late = late_.find(type_of(message)); late != late_.end()) {
        cluster_.clock.call_after(
            late->second, [this, from, to, message] { cluster_.inject(from, to, message); });
        return false;
      }
      return !held_back_.contains({type_of(message), to});
    };
    cluster_.network.observer = [this](Party from, Party to, const Bytes& message) {
      saw(from, to, message);
    };
    ASSERT_OK(cluster_.open_client());
  }

  static MessageType type_of(const Bytes& message) { return static_cast<MessageType>(message[2]); }
  /// The answer of a server whose product has gone to the aggregator.
  static bool is_empty_product(const Bytes& message) {
    return type_of(message) == MessageType::retrieve && message.size() == Rpc::kHeaderSize;
  }
  void saw(Party from, Party to, const Bytes& message) {
    const MessageType type = type_of(message);
    if (is_answer(message)) {
      if (message[4] == 0) ++answered_[{type, from}];
      former_tree_version_ += message[4] == static_cast<int>(Errc::former_view);
    } else if (type == MessageType::retrieve && to == 2) {
      const auto request = *decode<RetrieveRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      retrievals_.push_back({request.tree_version, request.write_number, request.leaf});
    }
  }
  void hold_back(MessageType type, std::initializer_list<Party> at) {
    for (const Party server : at) held_back_.insert({type, server});
  }
  void write(BlockId block, std::uint64_t generation) {
    ASSERT_OK(cluster_.write(block, pattern(block, generation, 512)));
  }
  void expect(BlockId block, std::uint64_t generation) {
    auto got = cluster_.read(block);
    ASSERT_OK(got);
    EXPECT_EQ(*got, generation == 0 ? Bytes(512) : pattern(block, generation, 512)) << block;
  }
  void wait(Duration duration) {
    bool over = false;
    cluster_.clock.call_after(duration, [&] { over = true; });
    cluster_.run_until([&] { return over; });
  }
  std::uint64_t evictions() { return cluster_.engine().status().evictions; }

  struct Retrieval {
    std::uint64_t tree_version;
    WriteNumber write_number;
    Leaf leaf;
  };
  /// The tree is high enough not to grow, because a path that is asked for again would then be
  /// longer.
  static VolumeParams volume() {
    VolumeParams params = test::safe_volume(GetParam(), kEvery);
    params.first_height = 4;
    return params;
  }
  Cluster cluster_{volume(), 61};
  std::set<std::pair<MessageType, Party>> held_back_;
  std::map<MessageType, Duration> late_;  // how long requests take
  std::map<std::pair<MessageType, Party>, int> answered_;
  std::vector<Retrieval> retrievals_;  // in the order in which server 2 gets them
  int former_tree_version_ = 0;
  bool only_sums_ = false;
};
S3O_WITH_EACH_EVICTOR(Overlap);

TEST_P(Overlap, AsManyAccessesAsThereAreRootSlotsGoOnAndTheNextOneWaits) {
  hold_back(MessageType::subshare, {1, 2, 3});
  for (BlockId block = 0; block < kEvery; ++block) write(block, 1);
  // The eviction has begun and cannot end. Its blocks are read, written and discarded meanwhile.
  expect(0, 1);
  write(1, 2);
  expect(100, 0);
  cluster_.engine().discard(2);
  write(4, 1);
  EXPECT_EQ(cluster_.engine().status().accesses, 2u * kEvery);
  std::optional<Result<Bytes>> waiting;
  cluster_.engine().read(3, [&](Result<Bytes> got) { waiting.emplace(std::move(got)); });
  wait(std::chrono::minutes(1));
  EXPECT_FALSE(waiting) << "there is no free root slot";
  EXPECT_EQ(cluster_.engine().status().accesses, 2u * kEvery);
  EXPECT_EQ(evictions(), 0u);
  held_back_.clear();
  cluster_.run_until([&] { return waiting.has_value(); });
  ASSERT_OK(*waiting);
  EXPECT_EQ(**waiting, pattern(3, 1, 512));
  EXPECT_GE(evictions(), 1u);
  for (int again = 0; again < 2; ++again) {
    for (const auto& [block, generation] : {std::pair{0, 1}, {1, 2}, {2, 0}, {3, 1}, {4, 1}})
      expect(static_cast<BlockId>(block), static_cast<std::uint64_t>(generation));
    ASSERT_OK(cluster_.close_client());
    ASSERT_OK(cluster_.open_client());
  }
}

TEST_P(Overlap, WhoReadsOneAfterTheOtherDoesNotWaitForAllThatIsLeftOfAnEviction) {
  using std::chrono::milliseconds;
  late_ = {{MessageType::retrieve, milliseconds(20)}, {MessageType::prepare, milliseconds(140)}};
  std::vector<Duration> took;
  for (int i = 0; i < 100; ++i) {
    const Duration begun = cluster_.clock.now();
    expect(static_cast<BlockId>(i % 7), 0);
    took.push_back(cluster_.clock.now() - begun);
  }
  took.erase(took.begin(), took.begin() + 20);  // by now the client knows how long evictions take
  EXPECT_GE(std::accumulate(took.begin(), took.end(), Duration()), 20 * milliseconds(140))
      << "one eviction for each four accesses";
  std::ranges::sort(took);
  EXPECT_LE(took.back(), 3 * took[took.size() / 2]);
}

TEST_P(Overlap, ARetrievalIsOverWhenTheSumIsThere) {
  write(1, 1);
  only_sums_ = true;
  const Duration begun = cluster_.clock.now();
  expect(1, 1);
  write(2, 1);
  EXPECT_LT(cluster_.clock.now() - begun, std::chrono::milliseconds(500))
      << "nothing was sent again";
  only_sums_ = false;
  expect(2, 1);
  ASSERT_OK(cluster_.close_client());
}

TEST_P(Overlap, ReadsDoNotRunAheadOfASlowLine) {
  hold_back(MessageType::write_root, {1, 2, 3});
  expect(100, 0);
  wait(std::chrono::seconds(1));
  held_back_.clear();
  wait(std::chrono::seconds(5));  // the request is sent again, and acknowledged
  hold_back(MessageType::write_root, {1, 2, 3});
  expect(101, 0);
  expect(102, 0);
  std::optional<Result<Bytes>> third;
  cluster_.engine().read(103, [&](Result<Bytes> got) { third.emplace(std::move(got)); });
  wait(std::chrono::minutes(1));
  EXPECT_FALSE(third) << "two uploads are under way, and the one before them was slow";
  held_back_.clear();
  cluster_.run_until([&] { return third.has_value(); });
  EXPECT_TRUE(third->has_value());
}

TEST_P(Overlap, TheTreeVersionBeforeIsReadUntilEveryServerHasFlipped) {
  hold_back(MessageType::commit, {3});
  for (BlockId block = 0; block < kEvery; ++block) write(block, 1);
  cluster_.run_until([&] {
    return answered_[{MessageType::commit, 1}] == 1 && answered_[{MessageType::commit, 2}] == 1;
  });
  retrievals_.clear();
  expect(0, 1);  // the place from which the eviction has moved it
  write(1, 2);
  expect(0, 1);  // written since then
  for (const Retrieval& retrieval : retrievals_) EXPECT_EQ(retrieval.tree_version, 0u);
  EXPECT_EQ(retrievals_.size(), 3u);
  EXPECT_EQ(evictions(), 0u);
  held_back_.clear();
  cluster_.run_until([&] { return evictions() == 1; });
  retrievals_.clear();
  expect(2, 1);
  ASSERT_EQ(retrievals_.size(), 1u);
  EXPECT_EQ(retrievals_[0].tree_version, 1u);
  expect(0, 1);
  expect(1, 2);
  expect(3, 1);
}

TEST_P(Overlap, AServerRestartedAfterItsFlipMakesTheClientReadTheSamePathAgain) {
  hold_back(MessageType::commit, {3});
  for (BlockId block = 0; block < kEvery; ++block) write(block, 1);
  cluster_.run_until([&] {
    return answered_[{MessageType::commit, 1}] == 1 && answered_[{MessageType::commit, 2}] == 1;
  });
  cluster_.kill_server(1);
  cluster_.start_server(1);
  retrievals_.clear();
  std::optional<Result<Bytes>> got;
  cluster_.engine().read(1, [&](Result<Bytes> result) { got.emplace(std::move(result)); });
  cluster_.run_until([&] { return former_tree_version_ > 0; });
  wait(std::chrono::seconds(30));
  EXPECT_FALSE(got) << "no tree version is held by all servers";
  held_back_.clear();
  cluster_.run_until([&] { return got.has_value(); });
  ASSERT_OK(*got);
  EXPECT_EQ(**got, pattern(1, 1, 512));
  ASSERT_GE(retrievals_.size(), 2u);
  const Retrieval &first = retrievals_.front(), &last = retrievals_.back();
  EXPECT_EQ(first.tree_version, 0u);
  EXPECT_EQ(last.tree_version, 1u);
  for (const Retrieval& each : retrievals_) {
    EXPECT_EQ(each.write_number, first.write_number);
    EXPECT_EQ(each.leaf, first.leaf) << "another path would show that it is the same block";
  }
  for (BlockId block = 0; block < kEvery; ++block) expect(block, 1);
}

// The client loses power when only one server has committed, and accesses have gone on.
TEST_P(Overlap, WhatWasWrittenDuringAnEvictionOutlivesACut) {
  hold_back(MessageType::commit, {2, 3});
  for (BlockId block = 0; block < kEvery; ++block) write(block, 1);
  cluster_.run_until([&] { return answered_[{MessageType::commit, 1}] == 1; });
  write(0, 2);
  write(5, 1);
  ASSERT_OK(cluster_.commit());
  for (Party party = kClient; party <= 3; ++party) cluster_.cut(party);
  held_back_.clear();
  for (Party server = 1; server <= 3; ++server) cluster_.start_server(server);
  ASSERT_OK(cluster_.open_client());
  expect(0, 2);
  for (const BlockId block : {1, 2, 3, 5}) expect(block, 1);
}

}  // namespace
}  // namespace s3oram
