// Tests what the server sees of a ring: nothing depends on what was accessed.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "tests/schemes/ring/sim/ring_driver.h"

namespace s3oram::ring::test {
namespace {

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

// The client dies when it has asked, and asks again when the volume is opened. If it chose other
// dummies then, only the point of its block would be the same.
TEST(RingView, AnAccessThatIsRepeatedAsksForTheSamePoints) {
  constexpr BlockId kCount = 60;
  RingWorld world(small_ring(8, 6, 1), 5);
  std::map<std::tuple<Turn, BucketIndex, VersionStamp>, Point> first;
  unsigned again = 0;
  bool has_asked = false;
  world.network.observer = [&](Party from, Party, const Bytes& message) {
    if (from != kClient || !is_question(message) || type_of(message) != MessageType::retrieve)
      return;
    has_asked = true;
    const auto request = decode<RetrieveRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
    ASSERT_TRUE(request);
    for (const Ask& ask : request->asks) {
      const auto [before, is_new] =
          first.try_emplace({request->turn, ask.bucket, ask.stamp}, ask.point);
      again += !is_new;
      EXPECT_EQ(before->second, ask.point) << "turn " << request->turn;
    }
  };
  ASSERT_GOOD(world.open_client());
  for (BlockId block = 0; block < kCount; ++block)
    ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
  for (BlockId block = 0; block < kCount; block += 5) {
    has_asked = false;
    world.engine().read(block, [](Result<Bytes>) {});
    world.run_until([&] { return has_asked; });
    world.kill(kClient);
    world.settle();
    ASSERT_GOOD(world.open_client());
    const auto got = world.read(block);
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, pattern(block, 1, 512)) << "block " << block;
  }
  EXPECT_GT(again, 20u);
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
  unsigned prepared = 0;  // each fifth attempt fails, and there is another in the same opening
  world.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from == kClient || !is_answer(message) || type_of(message) != MessageType::prepare)
      return true;
    if (++prepared % 5 != 0) return true;
    Bytes refusal(message.begin(), message.begin() + Rpc::kHeaderSize);
    refusal[4] = static_cast<std::uint8_t>(Errc::failed);
    world.network.deliver(from, to, std::move(refusal));
    return false;
  };
  for (int life = 0; life < 3; ++life) {
    ASSERT_GOOD(world.open_client());
    for (BlockId i = 0; i < 60; ++i) ASSERT_GOOD(world.write(i % 20, Bytes(512, 1)));
    world.kill(kClient);
    world.settle();
  }
  EXPECT_GE(attempts.size(), 50u);
  EXPECT_GE(prepared, 40u);
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

}  // namespace
}  // namespace s3oram::ring::test
