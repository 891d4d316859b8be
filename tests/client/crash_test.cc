// Parties die at any step, messages are lost, doubled and late; whatever a commit covered is there
// afterwards, and work goes on.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "oramcore/tree/bounds.h"
#include "serverd/frame_store.h"
#include "tests/sim/cluster.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::pattern;

struct Trouble {
  const char* name;
  double client_dies = 0, server_dies = 0;  // at each step
  double lost = 0, doubled = 0, late = 0;   // of the messages
};

struct Case {
  Scheme scheme;
  std::uint16_t bucket_size, evict_every;
};

// What each block may hold: the contents written to it, oldest first; the first is the newest that
// a commit has covered.
class Ledger {
 public:
  struct Entry {
    Bytes content;
    bool acknowledged = false;
    std::uint64_t number = 0;
  };

  explicit Ledger(std::size_t size) : size_(size) {}

  std::uint64_t wrote(BlockId block, Bytes content) {
    entries(block).push_back({std::move(content), false, ++last_});
    return last_;
  }
  void acknowledged(BlockId block, std::uint64_t number) {
    for (Entry& entry : entries(block)) entry.acknowledged |= entry.number == number;
  }
  /// The newest acknowledged content of each block: what a commit that begins now will cover.
  std::map<BlockId, std::uint64_t> snapshot() {
    std::map<BlockId, std::uint64_t> numbers;
    for (auto& [block, list] : blocks_)
      for (const Entry& entry : list)
        if (entry.acknowledged) numbers[block] = entry.number;
    return numbers;
  }
  void committed(const std::map<BlockId, std::uint64_t>& numbers) {
    for (const auto& [block, number] : numbers) {
      auto& list = entries(block);
      while (list.front().number < number) list.pop_front();
    }
  }
  /// The client died: what was acknowledged and not committed may be lost.
  void crashed() {
    for (auto& [block, list] : blocks_)
      for (Entry& entry : list) entry.acknowledged = false;
  }
  const Bytes& newest(BlockId block) { return entries(block).back().content; }
  /// After a crash: which content it was, is found out by reading.
  bool may_be(BlockId block, const Bytes& content) {
    for (const Entry& entry : entries(block))
      if (entry.content == content) return true;
    return false;
  }
  void is(BlockId block, Bytes content) { entries(block) = {{std::move(content), true, ++last_}}; }

 private:
  std::deque<Entry>& entries(BlockId block) {
    auto& list = blocks_[block];
    if (list.empty()) list.push_back({Bytes(size_), true, 0});
    return list;
  }
  std::size_t size_;
  std::uint64_t last_ = 0;
  std::map<BlockId, std::deque<Entry>> blocks_;
};

class Crashes : public testing::TestWithParam<std::tuple<Case, Trouble, int>> {
 protected:
  static constexpr std::size_t kSize = 512;
  static constexpr BlockId kBlocks = 40;
};

TEST_P(Crashes, LoseNothingThatWasCommitted) {
  const auto& [shape, trouble, seed] = GetParam();
  Cluster cluster({shape.scheme, kSize, shape.bucket_size, shape.evict_every}, seed);
  cluster.pool.shuffle = true;
  std::mt19937_64 random(seed);
  const auto chance = [&](double p) { return random() < p * 18446744073709551615.0; };

  bool faults = true, resending = false;
  const auto send_later = [&](Party from, Party to, const Bytes& message) {
    const auto delay = std::chrono::milliseconds(1 + random() % (random() % 4 ? 20 : 20000));
    cluster.clock.call_after(delay, [&, from, to, message] {
      resending = true;
      cluster.inject(from, to, message);
      resending = false;
    });
  };
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (!faults || resending) return true;
    if (chance(trouble.lost)) return false;
    if (chance(trouble.doubled)) send_later(from, to, message);
    if (!chance(trouble.late)) return true;
    send_later(from, to, message);
    return false;
  };

  Ledger ledger(kSize);
  std::uint64_t generation = 0, life = 0;
  std::size_t under_way = 0, begun = 0, deaths = 0;
  std::optional<Status> opened;
  const auto open = [&] {
    under_way = 0;
    opened.reset();
    cluster.begin_open_client([&, mine = ++life](Status status) {
      if (mine == life) opened.emplace(std::move(status));
    });
  };
  // Every block is read once after the client's death, before anything else is done with it.
  std::map<BlockId, bool> unknown;
  const auto begin_one = [&] {
    const BlockId block = random() % kBlocks;
    if (unknown.contains(block) && unknown[block]) return;
    ++begun;
    if (unknown.contains(block)) {
      unknown[block] = true;
      ++under_way;
      cluster.engine().read(block, [&, block, mine = life](Result<Bytes> got) {
        if (mine != life) return;
        --under_way;
        ASSERT_TRUE(got) << got.error().message;
        EXPECT_TRUE(ledger.may_be(block, *got)) << "block " << block << " after a crash";
        ledger.is(block, *got);
        unknown.erase(block);
      });
      return;
    }
    switch (random() % 6) {
      case 0:
      case 1:
      case 2: {
        ++under_way;
        auto content = pattern(block, ++generation, kSize);
        const auto number = ledger.wrote(block, content);
        cluster.engine().write(block, content, [&, block, number, mine = life](Status status) {
          if (mine != life) return;
          --under_way;
          ASSERT_TRUE(status) << status.error().message;
          ledger.acknowledged(block, number);
        });
        break;
      }
      case 3:
        ledger.wrote(block, Bytes(kSize));
        cluster.engine().discard(block);
        break;
      case 4: {
        ++under_way;
        cluster.engine().commit([&, covers = ledger.snapshot(), mine = life](Status status) {
          if (mine != life) return;
          --under_way;
          ASSERT_TRUE(status) << status.error().message;
          ledger.committed(covers);
        });
        break;
      }
      default:
        ++under_way;
        cluster.engine().read(
            block, [&, block, mine = life, wanted = ledger.newest(block)](Result<Bytes> got) {
              if (mine != life) return;
              --under_way;
              ASSERT_TRUE(got) << got.error().message;
              EXPECT_EQ(*got, wanted) << "block " << block;
            });
    }
  };

  open();
  constexpr std::size_t kOperations = 300, kDeaths = 60;
  const Duration limit = std::chrono::hours(24);
  while (begun < kOperations || under_way > 0 || !opened) {
    ASSERT_LT(cluster.clock.now(), limit) << "no progress: " << begun << " begun, " << under_way
                                          << " under way, after " << deaths << " deaths";
    if (HasFailure()) return;
    if (deaths < kDeaths) {
      if (chance(trouble.client_dies)) {
        ++deaths;
        cluster.kill_client();
        ledger.crashed();
        for (BlockId block = 0; block < kBlocks; ++block) unknown[block] = false;
        open();
      }
      for (Party server = 1; server <= shape.scheme.servers; ++server)
        if (chance(trouble.server_dies)) {
          ++deaths;
          cluster.kill_server(server);
          cluster.start_server(server);
        }
    }
    if (opened && !*opened) {
      ASSERT_EQ((*opened).error().code, Errc::unreachable) << (*opened).error().message;
      cluster.kill_client();
      open();
    }
    if (opened && under_way < 8 && begun < kOperations) begin_one();
    cluster.step();
  }
  for (BlockId block = 0; block < kBlocks; ++block) {
    auto got = cluster.read(block);
    ASSERT_TRUE(got) << got.error().message;
    if (unknown.contains(block)) {
      EXPECT_TRUE(ledger.may_be(block, *got)) << "block " << block << " at the end";
    } else {
      EXPECT_EQ(*got, ledger.newest(block)) << "block " << block << " at the end";
    }
  }
  faults = false;
  ASSERT_OK(cluster.close_client());
}

const Case kCases[] = {{{1, 3}, 5, 4},
                       {{1, 3}, min_bucket_size(2), 2},
                       {{1, 4}, min_bucket_size(3), 3},
                       {{2, 5}, min_bucket_size(2), 2}};
const Trouble kTroubles[] = {
    {"ClientDies", 0.002, 0, 0, 0, 0},
    {"ServersDie", 0, 0.0005, 0, 0, 0},
    {"BadNetwork", 0, 0, 0.05, 0.1, 0.1},
    {"Everything", 0.0005, 0.0002, 0.02, 0.05, 0.05},
};

std::string crash_name(const testing::TestParamInfo<Crashes::ParamType>& test) {
  const auto& [shape, trouble, seed] = test.param;
  return fmt::format("{}Of{}Z{}Seed{}", trouble.name, shape.scheme.servers, shape.bucket_size,
                     seed);
}

INSTANTIATE_TEST_SUITE_P(All, Crashes,
                         testing::Combine(testing::ValuesIn(kCases), testing::ValuesIn(kTroubles),
                                          testing::Range(1, 4)),
                         crash_name);

// ---- single steps, driven by hand

TEST(Protocol, AnAttemptIsNeverBegunTwice) {
  Cluster cluster({{1, 3}, 512, 4, 2}, 31);
  ASSERT_OK(cluster.open_client());
  // The first Prepare that a server gets fails there: a peer refuses its subshares. Then the same
  // Prepare comes again.
  Bytes prepare;
  std::size_t subshares = 0;
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    const int type = message[2];
    if (from == kClient && message[0] == 'Q' && type == 6) {
      if (to == 1) prepare = message;
      return to == 1;  // the others never get theirs
    }
    if (from == 1 && message[0] == 'Q' && type == 10) ++subshares;
    return true;
  };
  for (BlockId block = 0; block < 2; ++block)
    cluster.engine().write(block, pattern(block, 1, 512), [](Status) {});
  cluster.run_until([&] { return subshares == 2; });
  cluster.settle();
  cluster.kill_server(1);
  cluster.start_server(1);
  // The client opens the session again, and learns of the restart by it.
  std::size_t opened = 0;
  subshares = 0;
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    const int type = message[2];
    if (from == kClient && message[0] == 'Q' && type == 8) return false;  // no Discard arrives
    if (from == 1 && message[0] == 'A' && type == 3) ++opened;
    if (from == 1 && message[0] == 'Q' && type == 10) ++subshares;
    return from != kClient || to == 1;
  };
  cluster.run_until([&] { return opened > 0; });
  cluster.settle();
  std::optional<std::uint8_t> code;
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    const int type = message[2];
    if (from == 1 && message[0] == 'A' && type == 6) code = message[4];
    if (from == 1 && message[0] == 'Q' && type == 10) ++subshares;
    return from != kClient || (to == 1 && type == 6);
  };
  cluster.inject(kClient, 1, prepare);
  cluster.settle();
  ASSERT_TRUE(code.has_value()) << "it should refuse at once";
  EXPECT_EQ(*code, static_cast<int>(Errc::failed));
  EXPECT_EQ(subshares, 0u) << "fresh subshares under an old attempt";
  cluster.network.filter = {};
  for (BlockId block = 0; block < 2; ++block) {
    auto got = cluster.read(block);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, pattern(block, 1, 512));
  }
}

// A root slot of one server is damaged on its disk: no eviction may spread that over the others.
TEST(Protocol, ADamagedRootSlotIsHealedBeforeAnEviction) {
  Cluster cluster({{1, 3}, 512, min_bucket_size(4), 4}, 32);
  ASSERT_OK(cluster.open_client());
  for (BlockId block = 0; block < 3; ++block)
    ASSERT_OK(cluster.write(block, pattern(block, 1, 512)));
  ASSERT_OK(cluster.commit());
  cluster.stop_server(2);
  // Frame 1 is the root of a new volume; its second slot.
  cluster.disk(2).rot(cluster.slots(), 512 + VolumeParams::kSealOverhead + Frame::kTrailer + 100,
                      0x40);
  cluster.start_server(2);
  std::size_t healed = 0, committed = 0;
  bool stop_healing = true;
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != kClient || message[0] != 'Q') return true;
    const auto type = static_cast<MessageType>(message[2]);
    committed += type == MessageType::commit;
    if (type != MessageType::heal_slot) return true;
    EXPECT_EQ(to, 2);
    ++healed;
    return !stop_healing;
  };
  cluster.engine().write(3, pattern(3, 1, 512), [](Status) {});
  cluster.run_until([&] { return healed > 1 || committed > 0; });
  EXPECT_EQ(committed, 0u) << "an eviction computed with a damaged share";
  stop_healing = false;
  cluster.run_until([&] { return committed > 0; });
  for (BlockId block = 0; block < 4; ++block) {
    auto got = cluster.read(block);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, pattern(block, 1, 512));
  }
}

}  // namespace
}  // namespace s3oram
