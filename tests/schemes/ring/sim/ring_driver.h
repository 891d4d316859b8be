// What tests of ring's engine share: random operations, a record of what the server saw, and
// answers that are altered on their way.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/base/good.h"
#include "tests/schemes/ring/sim/ring_world.h"

namespace s3oram::ring::test {

inline const VolumeParams kShapes[] = {small_ring(4, 3, 1), small_ring(8, 6, 2),
                                       small_ring(16, 12, 3), small_ring(2, 1, 1),
                                       small_ring(8, 6, 1, 4)};

/// Drives a world with random operations and remembers what every block must hold.
class Driver {
 public:
  Driver(RingWorld& world, std::uint64_t seed) : world_(world), random_(seed) {}

  void operate(std::size_t count, BlockId blocks, std::size_t at_once) {
    std::size_t ended = 0, begun = 0;
    while (ended < count) {
      while (begun < count && begun - ended < at_once) {
        ++begun;
        begin(random_() % blocks, ended);
      }
      const std::size_t before = ended;
      world_.run_until([&] { return ended > before || ended == begun; });
    }
  }
  void check_all(BlockId blocks) {
    for (BlockId block = 0; block < blocks; ++block) {
      auto got = world_.read(block);
      ASSERT_TRUE(got) << got.error().message;
      ASSERT_EQ(*got, wanted(block)) << "block " << block;
    }
  }

 private:
  void begin(BlockId block, std::size_t& ended) {
    switch (random_() % 5) {
      case 0:
      case 1:
        held_[block] = pattern(block, ++generation_, world_.params().block_size);
        world_.engine().write(block, held_[block], [&ended](Status status) {
          EXPECT_TRUE(status) << status.error().message;
          ++ended;
        });
        return;
      case 2:
        held_.erase(block);
        world_.engine().discard(block);
        ++ended;
        return;
      default:
        world_.engine().read(block, [&ended, block, wanted = wanted(block)](Result<Bytes> got) {
          ++ended;
          ASSERT_TRUE(got) << got.error().message;
          EXPECT_EQ(*got, wanted) << "block " << block;
        });
    }
  }
  Bytes wanted(BlockId block) const {
    const auto found = held_.find(block);
    return found == held_.end() ? Bytes(world_.params().block_size) : found->second;
  }
  RingWorld& world_;
  std::mt19937_64 random_;
  std::uint64_t generation_ = 0;
  std::map<BlockId, Bytes> held_;
};

/// Remembers the points that were asked of each bucket version, and the turns that asked. For each
/// turn it also records how recently the group of its path was evicted, as the number of other
/// groups evicted since then.
class Observer {
 public:
  explicit Observer(RingWorld& world) : groups_(Params(world.params()).groups()) {
    world.network.observer = [this](Party from, Party, const Bytes& message) {
      if (from == kClient && is_question(message)) saw(message);
    };
  }
  std::size_t repeated = 0, accesses = 0;
  std::map<VersionStamp, unsigned> touches;
  std::map<std::pair<MessageType, std::size_t>, std::size_t> shapes;
  std::map<std::size_t, std::size_t> values;  // accesses by the number of values that they ask for
  std::map<Turn, std::size_t> others_since;   // only turns whose group had been evicted before

 private:
  void saw(const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2] | message[3] << 8);
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    if (type == MessageType::write_root) ++shapes[{type, message.size()}];
    if (type == MessageType::prepare) prepared_ = decode<PrepareRequest>(body)->buckets;
    if (type == MessageType::commit) evicted(std::exchange(prepared_, {}));
    if (type != MessageType::retrieve) return;
    const auto request = decode<RetrieveRequest>(body);
    ASSERT_TRUE(request);
    ++accesses;
    ++values[request->asks.size()];
    const auto since = std::ranges::find(newest_first_, group_of(request->asks));
    if (since != newest_first_.end())
      others_since.try_emplace(request->turn,
                               static_cast<std::size_t>(since - newest_first_.begin()));
    for (const Ask& ask : request->asks) {
      const auto [first, is_new] =
          asked_.try_emplace({ask.bucket, ask.stamp, ask.point}, request->turn);
      if (is_new) ++touches[ask.stamp ^ ask.bucket << 1];
      repeated += first->second != request->turn;
    }
  }
  void evicted(const std::vector<BucketIndex>& buckets) {
    if (buckets.empty()) return;  // the commit came twice
    const std::uint64_t group = buckets.front() % groups_;
    std::erase(newest_first_, group);
    newest_first_.insert(newest_first_.begin(), group);
  }
  std::uint64_t group_of(const std::vector<Ask>& asks) const {
    return asks.empty() ? groups_ : asks.front().bucket % groups_;
  }
  const std::uint64_t groups_;
  std::vector<BucketIndex> prepared_;
  std::vector<std::uint64_t> newest_first_;
  std::map<std::tuple<BucketIndex, VersionStamp, Point>, Turn> asked_;
};

inline MessageType type_of(const Bytes& message) {
  return static_cast<MessageType>(message[2] | message[3] << 8);
}

/// Changes the answers of one type on their way, and counts the requests.
template <class Answer>
class Altering {
 public:
  using Change = std::function<void(Answer&)>;
  /// `change` alters an answer, or leaves it alone.
  Altering(RingWorld& world, MessageType type, Change change)
      : world_(world), type_(type), change_(std::move(change)) {
    world.network.filter = [this](Party from, Party to, const Bytes& message) {
      return pass(from, to, message);
    };
  }
  ~Altering() { world_.network.filter = {}; }
  unsigned questions = 0;

 private:
  bool pass(Party from, Party to, const Bytes& message) {
    if (type_of(message) != type_) return true;
    questions += from == kClient && is_question(message);
    const bool is_error = message[4] != 0 || message[5] != 0;
    if (from == kClient || is_error) return true;
    auto answer = decode<Answer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
    if (!answer) return true;
    change_(*answer);
    Bytes altered = encode(*answer);
    std::ranges::copy(message.begin(), message.begin() + Rpc::kHeaderSize, altered.begin());
    world_.network.deliver(from, to, std::move(altered));
    return false;
  }
  RingWorld& world_;
  const MessageType type_;
  const Change change_;
};

}  // namespace s3oram::ring::test
