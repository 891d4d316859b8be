// The whole protocol of ring in one process: random accesses compared with what blocks must hold,
// crashes of either party at any moment, and what the server sees.
#include "oramcore/schemes/ring/client/ring_engine.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/base/good.h"
#include "tests/harness/repetitions.h"
#include "tests/schemes/ring/sim/point_watch.h"
#include "tests/schemes/ring/sim/ring_world.h"
#include "tests/sim/ledger.h"

namespace s3oram::ring::test {
namespace {

using s3oram::test::Ledger;

const VolumeParams kShapes[] = {small_ring(4, 3, 1), small_ring(8, 6, 2), small_ring(16, 12, 3),
                                small_ring(2, 1, 1), small_ring(8, 6, 1, 4)};

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

// ---- crashes

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

// ---- what the server sees

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

TEST(RingView, NoPointOfAVersionIsAskedForByTwoAccesses) {
  RingWorld world(small_ring(8, 6, 2), 5);
  Observer observer(world);
  Driver driver(world, 5);
  for (int session = 0; session < 3; ++session) {
    ASSERT_GOOD(world.open_client());
    driver.operate(300, 30, 4);
    ASSERT_GOOD(world.commit());
    // The client dies in the middle of an access.
    world.engine().read(3, [](Result<Bytes>) {});
    world.step();
    world.kill(kClient);
    world.settle();
  }
  EXPECT_GT(observer.accesses, 600u);
  EXPECT_EQ(observer.repeated, 0u);
}

TEST(RingView, ReadsWritesAndAccessesToNothingLookAlike) {
  const auto shapes = [](int what) {
    RingWorld world(small_ring(8, 6, 2), 9);
    Observer observer(world);
    EXPECT_TRUE(world.open_client());
    // Until every bucket of the tree has been written.
    for (BlockId block = 0; block < 240; ++block)
      EXPECT_TRUE(world.write(block % 7, Bytes(512, 1)));
    world.settle();
    observer.values.clear();
    for (BlockId block = 0; block < 60; ++block)
      EXPECT_TRUE(what == 0 ? world.write(block % 7, Bytes(512, 1)).has_value()
                            : world.read(what == 1 ? 3 : 1000 + block).has_value());
    // Each access asks every level below the top for one value.
    const unsigned levels = world.engine().status().height + 1 - world.params().top_levels;
    EXPECT_EQ(observer.values.size(), 1u);
    EXPECT_EQ(observer.values.begin()->first, levels);
    EXPECT_TRUE(world.close_client());
    return std::pair(observer.accesses, observer.shapes);
  };
  EXPECT_EQ(shapes(0), shapes(1));
  EXPECT_EQ(shapes(0), shapes(2));
}

// A block's leaf is shown by its next access, so that access draws another one.
TEST(RingView, AnAccessGivesItsBlockAFreshLeaf) {
  RingWorld world(small_ring(8, 6, 2), 14);
  std::set<Leaf> leaves;
  for (int access = 0; access < 6; ++access) {
    ASSERT_GOOD(world.open_client());
    if (access % 2 == 0)
      ASSERT_GOOD(world.write(3, pattern(3, 1, 512)));
    else
      ASSERT_GOOD(world.read(3));
    world.settle();
    ASSERT_GOOD(world.close_client());
    const auto loaded = RingState::open("vault.db", world.disk(kClient))->load(world.params());
    ASSERT_GOOD(loaded);
    EXPECT_TRUE(leaves.insert(loaded->places.get(3).leaf).second) << "access " << access;
  }
}

// When a group is evicted, its blocks leave the top, which everyone sees. So whatever is accessed,
// a path must be as likely to belong to a recently evicted group as to any other. The same holds
// for the client's own turns.
TEST(RingView, APathDoesNotTellWhetherItsBlockHasLeftTheTop) {
  RingWorld world(small_ring(8, 6, 2), 31);
  Observer observer(world);
  ASSERT_GOOD(world.open_client());
  // Each block is accessed again after half a sweep of evictions, whether or not it has left the
  // top.
  constexpr unsigned kAccesses = 4500;
  for (BlockId i = 0; i < kAccesses; ++i) {
    ASSERT_GOOD(world.write(i % 12, Bytes(512, 1)));
    world.settle();
  }
  unsigned lately = 0, own = 0, own_lately = 0;
  for (const auto& [turn, since] : observer.others_since) {
    const bool is_own = turn % kMaintenanceEvery == kMaintenanceEvery - 1;
    lately += since < 2;
    own += is_own;
    own_lately += is_own && since < 2;
  }
  EXPECT_NEAR(lately, kAccesses / 2.0, 0.05 * kAccesses);
  EXPECT_GT(own, 15u);
  EXPECT_NEAR(own_lately, own / 2.0, 0.4 * own);
}

// The number of blocks that leave the top in an eviction depends on the accesses, and the server
// sees when the new rows come. So the client reads and opens the same amount, whatever leaves. Each
// access reads two slots, also if its block lies in one of them.
TEST(RingView, AnEvictionReadsAsMuchOfTheCacheWhateverLeavesTheTop) {
  const auto reads = [](BlockId blocks) {
    RingWorld world(small_ring(8, 6, 2), 13);
    EXPECT_TRUE(world.open_client());
    const std::uint64_t before = world.disk(kClient).file_reads();
    for (BlockId i = 0; i < 240; ++i) EXPECT_TRUE(world.write(i % blocks, Bytes(512, 1)));
    world.settle();
    EXPECT_EQ(world.engine().status().evictions, 40u);
    return world.disk(kClient).file_reads() - before;
  };
  EXPECT_EQ(reads(1), 2 * 240 + 40 * Params(small_ring(8, 6, 2)).cache_reads());
  EXPECT_EQ(reads(1), reads(48));
}

// Points and masks are drawn by the stamp, so two versions of a bucket never have the same.
TEST(RingView, AStampDoesNotRepeat) {
  RingWorld world(small_ring(4, 3, 1), 14);
  world.network.faults = {.lost = 0.05, .doubled = 0, .late = 0};
  std::set<EvictionId> attempts;
  std::map<VersionStamp, EvictionId> stamps;
  world.network.observer = [&](Party, Party, const Bytes& message) {
    if (!is_question(message)) return;
    const auto type = static_cast<MessageType>(message[2] | message[3] << 8);
    if (type != MessageType::store_rows) return;
    const auto request = decode<StoreRowsRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
    ASSERT_TRUE(request);
    const VersionStamp stamp = stamp_of(request->id.attempt);
    attempts.insert(request->id);
    EXPECT_EQ(stamps.try_emplace(stamp, request->id).first->second, request->id);
    // No stamp repeats, neither after another opening of the volume nor in another attempt of one
    // opening.
    EXPECT_EQ(stamp >> 32, request->id.eviction);
    const auto next = stamps.find(stamp + 1);
    EXPECT_TRUE(next == stamps.end() || next->second.eviction == request->id.eviction);
  };
  for (int life = 0; life < 3; ++life) {
    ASSERT_GOOD(world.open_client());
    for (BlockId i = 0; i < 60; ++i) ASSERT_GOOD(world.write(i % 20, Bytes(512, 1)));
    world.kill(kClient);
    world.settle();
  }
  EXPECT_GE(attempts.size(), 50u);
}

// A bucket whose dummies are used up is written again before it is asked once more. In this test it
// is usual that all dummies are used.
TEST(RingView, ABucketWithoutDummiesIsWrittenAgain) {
  RingWorld world(small_ring(128, 126, 1), 3);
  Observer observer(world);
  ASSERT_GOOD(world.open_client());
  for (BlockId i = 0; i < 1500; ++i) ASSERT_GOOD(world.write(i % 90, Bytes(512, 1)));
  ASSERT_GOOD(world.close_client());
  EXPECT_EQ(observer.repeated, 0u);
  unsigned most = 0;
  for (const auto& [version, count] : observer.touches) most = std::max(most, count);
  EXPECT_EQ(most, 127u);
}

// Growth adds an empty level, so the tree's buckets are touched as often as in any other tree of
// its height. If the new leaves stood for the old one until they are written, an access would touch
// it more than once, and a first bulk load, in which the tree grows again and again, would use it
// up.
TEST(RingView, AGrowingTreeTouchesEachBucketOnceForEachAccess) {
  RingWorld world(small_ring(4, 3, 1), 16);
  std::size_t accesses = 0, twice = 0;
  world.network.observer = [&](Party from, Party, const Bytes& message) {
    if (from != kClient || !is_question(message) ||
        static_cast<MessageType>(message[2] | message[3] << 8) != MessageType::retrieve)
      return;
    const auto request = decode<RetrieveRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
    std::set<BucketIndex> buckets;
    for (const Ask& ask : request->asks) twice += !buckets.insert(ask.bucket).second;
    ++accesses;
  };
  ASSERT_GOOD(world.open_client());
  const unsigned first_height = world.engine().status().height;
  for (BlockId block = 0; block < 200; ++block)
    ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
  EXPECT_GE(world.engine().status().height, first_height + 3);
  EXPECT_GE(accesses, 200u);
  EXPECT_EQ(twice, 0u);
  for (BlockId block = 0; block < 200; ++block) {
    const auto got = world.read(block);
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, pattern(block, 1, 512));
  }
}

MessageType type_of(const Bytes& message) {
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

// ---- top.cache on a disk that is full, or has bad places

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

// ---- the server's disk is damaged

/// Damages these rows of the first five bucket versions on the server's disk.
void spoil(RingWorld& world, std::initializer_list<unsigned> rows) {
  const Params params(world.params());
  const std::uint64_t stride = params.row_size + BucketVersion::kTrailer;
  for (const unsigned version : {0u, 1u, 2u, 3u, 4u})
    for (const unsigned row : rows)
      world.disk(kServer).rot(
          "slots",
          (params.log_slots + std::uint64_t{version} * (params.bucket_size + 1) + row) * stride + 9,
          0x20);
}

class RingDamage : public testing::Test {
 protected:
  static constexpr BlockId kBlocks = 30;
  void SetUp() override {
    ASSERT_GOOD(world.open_client());
    write_all();
    ASSERT_GOOD(world.close_client());
    ASSERT_GOOD(world.stop_server());
  }
  void write_all() {
    ++generation;
    for (BlockId block = 0; block < kBlocks; ++block)
      ASSERT_GOOD(world.write(block, pattern(block, generation, 512)));
  }
  /// Returns how many blocks cannot be read; all others must be right.
  unsigned lost() {
    unsigned lost = 0;
    for (BlockId block = 0; block < kBlocks; ++block) {
      const auto got = world.read(block);
      if (got) {
        EXPECT_EQ(*got, pattern(block, generation, 512)) << "block " << block;
      } else {
        EXPECT_EQ(got.error().code, Errc::corrupt) << got.error().message;
      }
      lost += !got;
    }
    return lost;
  }
  RingWorld world{small_ring(4, 3, 1), 21};
  std::uint64_t generation = 0;
};

TEST_F(RingDamage, OneRowOfABucketCostsNothing) {
  spoil(world, {1});
  world.start_server();
  ASSERT_GOOD(world.open_client());
  EXPECT_EQ(lost(), 0u);
  const auto healed = world.run(world.engine().scrub({}));
  ASSERT_GOOD(healed);
  EXPECT_EQ(healed->lost, 0u);
}

TEST_F(RingDamage, TwoRowsCostTheBlocksOfTheirBucketAndNoOther) {
  spoil(world, {0, 3});
  world.start_server();
  ASSERT_GOOD(world.open_client());
  const auto healed = world.run(world.engine().scrub({}));
  ASSERT_GOOD(healed);
  EXPECT_GT(healed->lost, 0u);
  const unsigned gone = lost();
  EXPECT_GT(gone, 0u);
  EXPECT_LT(gone, 21u);
  EXPECT_EQ(world.engine().status().unreadable, gone);
  ASSERT_GOOD(world.close_client());
  ASSERT_GOOD(world.open_client());
  EXPECT_EQ(lost(), gone) << "they do not read as zeros later either";
  write_all();
  EXPECT_EQ(lost(), 0u);
  EXPECT_EQ(world.engine().status().unreadable, 0u);
}

// While nothing can be read, nothing is given up, because everything is still on the server's disk.
TEST_F(RingDamage, AReadErrorThatPassesCostsNothing) {
  world.start_server();
  ASSERT_GOOD(world.open_client());
  world.disk(kServer).faults.read = 1;
  unsigned written = 0;
  for (BlockId block = 0; block < 12; ++block)
    world.engine().write(block, pattern(block, generation, 512), [&](Status status) {
      EXPECT_TRUE(status) << status.error().message;
      ++written;
    });
  world.pass(std::chrono::seconds(20));
  world.disk(kServer).faults.read = 0;
  world.run_until([&] { return written == 12; });
  EXPECT_EQ(lost(), 0u);
  EXPECT_EQ(world.engine().status().unreadable, 0u);
}

// ---- the server's store is rolled back

class RingSetBack : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < 3; ++block) ASSERT_GOOD(world.write(block, Bytes(512, 1)));
    ASSERT_GOOD(world.commit());
  }
  void set_back() {
    if (world.runs(kServer)) ASSERT_GOOD(world.stop_server());
    world.disk(kServer).put(image);
    world.start_server();
  }
  // An eviction comes only every 60 accesses, so that some turns are possible without one.
  RingWorld world{small_ring(8, 60, 1), 31};
  DiskImage image;
};

TEST_F(RingSetBack, IsNoticedWhenTheVolumeIsOpened) {
  image = world.disk(kServer).image();
  ASSERT_GOOD(world.write(7, Bytes(512, 2)));
  ASSERT_GOOD(world.close_client());
  const DiskImage newest = world.disk(kServer).image();
  set_back();
  const Status refused = world.open_client();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::wrong_volume);
  EXPECT_NE(refused.error().message.find("set back"), std::string::npos);
  image = newest;
  set_back();
  ASSERT_GOOD(world.open_client());
  EXPECT_EQ(*world.read(7), Bytes(512, 2));
}

TEST_F(RingSetBack, IsNoticedWhileTheVolumeIsOpen) {
  image = world.disk(kServer).image();
  ASSERT_GOOD(world.write(7, Bytes(512, 2)));
  const DiskImage newest = world.disk(kServer).image();
  set_back();
  bool ended = false;
  world.engine().read(1, [&](Result<Bytes> got) {
    ended = true;
    EXPECT_TRUE(got && *got == Bytes(512, 1));
  });
  world.pass(std::chrono::seconds(30));
  EXPECT_FALSE(ended) << "it waits for the newest store";
  const auto trouble = world.engine().status().servers.at(0).trouble;
  ASSERT_TRUE(trouble);
  EXPECT_EQ(trouble->error.code, Errc::wrong_volume);
  image = newest;
  set_back();
  world.run_until([&] { return ended; });
  EXPECT_EQ(*world.read(7), Bytes(512, 2));
}

// ---- the client's disk is lost

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

// ---- what an answer promises

// The server's power is cut when a write is answered, and the client is lost with its cache.
TEST(RingAnswered, AWriteSurvivesThePowerCutOfTheServer) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    RingWorld world(small_ring(4, 3, 1), seed);
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < 10; ++block)
      ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
    world.settle();
    bool answered = false;
    world.engine().write(3, pattern(3, 2, 512), [&](Status status) {
      EXPECT_TRUE(status);
      world.cut(kServer);
      answered = true;
    });
    world.run_until([&] { return answered; });
    world.kill(kClient);
    world.settle();
    world.start_server();
    world.lose_client();
    ASSERT_GOOD(world.rebuild_client());
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < 10; ++block) {
      const auto got = world.read(block);
      ASSERT_GOOD(got);
      EXPECT_EQ(*got, pattern(block, block == 3 ? 2 : 1, 512)) << "block " << block;
    }
  }
}

// The client's power is cut when it has asked. Afterwards it asks for the same again, because the
// record was committed before.
TEST(RingAnswered, NothingIsAskedBeforeItsRecordIsCommitted) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    RingWorld world(small_ring(4, 3, 1), seed);
    PointWatch watch;
    bool has_asked = false;
    world.network.observer = [&](Party from, Party to, const Bytes& message) {
      watch.saw(from, to, message);
      has_asked |= is_question(message) && type_of(message) == MessageType::retrieve;
    };
    world.on_death = [&](Party party) {
      if (party == kClient) watch.client_died();
    };
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < 10; ++block)
      ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
    ASSERT_GOOD(world.commit());
    world.settle();
    has_asked = false;
    world.engine().read(seed, [](Result<Bytes>) {});
    world.run_until([&] { return has_asked; });
    world.cut(kClient);
    world.settle();
    ASSERT_GOOD(world.open_client());
    EXPECT_EQ(watch.opened(), "");
    const auto got = world.read(seed);
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, pattern(seed, 1, 512));
    world.on_death = {};
    world.network.observer = {};
  }
}

// ---- power cuts

struct Cut {
  Party party;
  std::string step;
  bool done;
  auto operator<=>(const Cut&) const = default;
};

/// Works until the power is cut at this step, and then recovers.
class CutCell {
 public:
  CutCell(const Cut& cut, std::uint64_t seed)
      : world_(small_ring(4, 3, 1), seed), ledger_(512), cut_(cut) {}

  /// Returns whether the step was reached.
  bool run() {
    start();
    for (BlockId block = 0; block < 20; ++block) write(block);
    commit();
    arm();
    for (int i = 0; i < 60 && !hit_; ++i) {
      write(static_cast<BlockId>(i * 7 % 20));
      if (!hit_ && i % 5 == 0) commit();
      if (i % 20 == 19 && !hit_ && world_.runs(kClient)) reopen();
    }
    world_.on_step = {};
    recover();
    for (BlockId block = 0; block < 20; ++block) check(block);
    for (BlockId block = 0; block < 20; ++block) write(block);
    for (BlockId block = 0; block < 20; ++block) check(block);
    return hit_;
  }
  std::set<std::pair<Party, std::string>> seen;

 private:
  void start() {
    while (!world_.runs(kServer)) static_cast<void>(world_.try_start_server());
    ASSERT_GOOD(world_.open_client());
  }
  void arm() {
    world_.on_step = [this](Party party, std::string_view name, bool done) {
      seen.emplace(party, name);
      if (hit_ || party != cut_.party || name != cut_.step || done != cut_.done) return;
      hit_ = true;
      world_.cut(party);
    };
  }
  void recover() {
    if (world_.runs(kClient)) world_.kill(kClient);
    ledger_.crashed();
    world_.settle();
    start();
  }
  void reopen() {
    world_.kill(kClient);
    ledger_.crashed();
    while (!world_.runs(kServer)) static_cast<void>(world_.try_start_server());
    std::optional<Status> opened;
    world_.begin_open_client([&](Status status) { opened.emplace(std::move(status)); });
    wait([&] { return opened.has_value(); });
  }
  void wait(const std::function<bool()>& done) {
    world_.run_until([&] {
      if (!world_.runs(kServer)) static_cast<void>(world_.try_start_server());
      return done() || !world_.runs(kClient);
    });
  }
  void write(BlockId block) {
    if (!world_.runs(kClient)) return;
    Bytes content = pattern(block, ++generation_, 512);
    const auto number = ledger_.wrote(block, content);
    auto written = std::make_shared<std::optional<Status>>();
    world_.engine().write(block, std::move(content),
                          [written](Status status) { written->emplace(std::move(status)); });
    wait([&] { return written->has_value(); });
    if (written->has_value() && **written && world_.runs(kClient))
      ledger_.acknowledged(block, number);
  }
  void commit() {
    if (!world_.runs(kClient)) return;
    const auto covers = ledger_.snapshot();
    auto done = std::make_shared<std::optional<Status>>();
    world_.engine().commit([done](Status status) { done->emplace(std::move(status)); });
    wait([&] { return done->has_value(); });
    if (done->has_value() && **done && world_.runs(kClient)) ledger_.committed(covers);
  }
  void check(BlockId block) {
    const auto got = world_.read(block);
    ASSERT_GOOD(got);
    EXPECT_TRUE(ledger_.may_be(block, *got)) << "block " << block;
  }

  RingWorld world_;
  Ledger ledger_;
  const Cut cut_;
  bool hit_ = false;
  std::uint64_t generation_ = 0;
};

// Every durable step of either party, with the power cut right before and right after it.
TEST(RingCuts, AtEveryStepLoseNothingThatWasCommitted) {
  CutCell whole({kServer, "none", false}, 1);
  EXPECT_FALSE(whole.run());
  EXPECT_GE(whole.seen.size(), 9u);
  std::size_t reached = 0;
  for (const auto& [party, step] : whole.seen)
    for (const bool done : {false, true})
      for (const std::uint64_t seed : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} {} {}, seed {}", party == kClient ? "client" : "server", step,
                                 done ? "done" : "not yet done", seed));
        reached += CutCell({party, step, done}, seed).run();
        ASSERT_FALSE(HasFailure());
      }
  std::cout << reached << " of " << whole.seen.size() * 6 << " cells cut at " << whole.seen.size()
            << " steps\n";
  EXPECT_EQ(reached, whole.seen.size() * 6);
}

}  // namespace
}  // namespace s3oram::ring::test
