// Tests that on full disks operations that free room still work, and so does everything that needs
// none.
#include <gtest/gtest.h>

#include "serverd/store/bucket_store.h"
#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::kBlockSize;
using test::pattern;

class Space : public test::EachEvictor {
 protected:
  void SetUp() override { ASSERT_OK(cluster_.open_client()); }

  Status write(BlockId block, std::uint64_t generation) {
    auto status = cluster_.write(block, pattern(block, generation, kBlockSize));
    if (status) held_[block] = generation;
    return status;
  }
  /// Writes new blocks until there is no more room.
  void fill() {
    for (const BlockId most = next_ + 2000; next_ < most; ++next_) {
      const auto status = write(next_, 1);
      if (status) continue;
      ASSERT_EQ(status.error().code, Errc::disk_full) << status.error().message;
      return;
    }
    FAIL() << "the disk was never full";
  }
  void check_all() {
    for (const auto& [block, generation] : held_) {
      auto got = cluster_.read(block);
      ASSERT_TRUE(got) << got.error().message;
      ASSERT_EQ(*got, pattern(block, generation, kBlockSize)) << "block " << block;
    }
  }
  void work_on(std::uint64_t freed) {
    for (std::uint64_t generation = 2; generation < 5; ++generation)
      for (auto& [block, present] : held_) ASSERT_OK(write(block, generation));
    ASSERT_NO_FATAL_FAILURE(check_all());
    for (int i = 0; i < 3; ++i) {
      cluster_.engine().discard(held_.begin()->first);
      held_.erase(held_.begin());
    }
    EXPECT_EQ(cluster_.engine().room().blocks, freed) << "discarded blocks give room immediately";
    ASSERT_OK(cluster_.commit());
    ASSERT_NO_FATAL_FAILURE(check_all());
  }
  /// Waits for room; the servers are asked for it every ten seconds.
  void wait_until(const std::function<bool()>& there_is_room) {
    const Duration limit = cluster_.clock.now() + std::chrono::minutes(2);
    while (!there_is_room()) {
      ASSERT_LT(cluster_.clock.now(), limit) << "there is room again, but nobody notices";
      bool later = false;
      cluster_.clock.call_after(std::chrono::seconds(1), [&] { later = true; });
      cluster_.run_until([&] { return later; });
    }
  }
  /// Returns the servers of which the status says that their disks are full.
  std::set<Party> without_room() {
    std::set<Party> those;
    Party number = 0;
    for (const auto& server : cluster_.engine().status().servers)
      if (++number; server.lacks_room) those.insert(number);
    return those;
  }
  void wait_for_room() {
    wait_until([this] { return write(next_, 1).has_value(); });
    ++next_;
  }

  Cluster cluster_{test::safe_volume(GetParam(), 4), 51};
  std::map<BlockId, std::uint64_t> held_;
  BlockId next_ = 0;
};
S3O_WITH_EACH_EVICTOR(Space);

TEST_P(Space, AServerWithoutRoomStopsTheGrowthAndNothingElse) {
  for (; next_ < 20; ++next_) ASSERT_OK(write(next_, 1));
  cluster_.disk(2).leave_space(0);
  ASSERT_NO_FATAL_FAILURE(fill());
  EXPECT_FALSE(cluster_.engine().room().can_grow);
  EXPECT_EQ(cluster_.engine().room().blocks, 0u);
  EXPECT_EQ(without_room(), std::set<Party>{2});
  const auto height = cluster_.engine().status().height;
  ASSERT_NO_FATAL_FAILURE(work_on(3));
  EXPECT_EQ(cluster_.engine().status().height, height);
  EXPECT_EQ(cluster_.engine().room().blocks, 3u);
  for (int i = 0; i < 3; ++i) ASSERT_OK(write(next_++, 1));
  EXPECT_FALSE(write(next_, 1));
  cluster_.disk(2).leave_space({});
  ASSERT_NO_FATAL_FAILURE(wait_for_room());
  for (const BlockId until = next_ + 100; next_ < until; ++next_) ASSERT_OK(write(next_, 1));
  EXPECT_GT(cluster_.engine().status().height, height);
  EXPECT_TRUE(without_room().empty());
  check_all();
}

TEST_P(Space, AServerThatUsesItsReserveIsNamed) {
  const auto uses_reserve = [this] {
    std::set<Party> those;
    Party number = 0;
    for (const auto& server : cluster_.engine().status().servers)
      if (++number; server.uses_reserve) those.insert(number);
    return those;
  };
  for (; next_ < 20; ++next_) ASSERT_OK(write(next_, 1));
  EXPECT_TRUE(uses_reserve().empty());
  cluster_.disk(2).leave_space(0);
  const auto is_told = [&] {
    EXPECT_TRUE(write(0, 1));  // an existing block
    return !uses_reserve().empty();
  };
  ASSERT_NO_FATAL_FAILURE(wait_until(is_told));
  EXPECT_EQ(uses_reserve(), std::set<Party>{2});
  cluster_.disk(2).leave_space({});
  ASSERT_NO_FATAL_FAILURE(wait_until([&] { return !is_told(); }));
}

// A write that needs more room than there is may never be tried.
TEST_P(Space, RoomIsFoundWithoutAWrite) {
  for (; next_ < 20; ++next_) ASSERT_OK(write(next_, 1));
  cluster_.disk(2).leave_space(0);
  ASSERT_NO_FATAL_FAILURE(fill());
  cluster_.disk(2).leave_space({});
  wait_until([this] {
    cluster_.engine().look_for_room();
    return cluster_.engine().room().can_grow;
  });
}

// Servers report their room before they refuse anything, because `df` must not promise room that no
// server has.
TEST_P(Space, TheServersSayHowMuchTheyHaveRoomFor) {
  // While accesses are made, servers are asked from time to time, even if no program asks for the
  // free room.
  const auto more = [this] {
    EXPECT_TRUE(write(0, 1));
    return cluster_.engine().room().more;
  };
  for (; next_ < 20; ++next_) ASSERT_OK(write(next_, 1));
  wait_until([&] { return more() > 0; });
  cluster_.disk(2).leave_space(0);
  wait_until([&] { return more() == 0; });
  EXPECT_EQ(without_room(), std::set<Party>{2}) << "before it refuses anything";
  EXPECT_FALSE(cluster_.engine().room().can_grow);
  const auto height = cluster_.engine().status().height;
  const auto blocks = cluster_.engine().room().blocks;
  for (std::uint64_t written = 0; written < blocks; ++written) ASSERT_OK(write(next_++, 1));
  EXPECT_EQ(cluster_.engine().status().height, height);
  // Room for one more level but not for two, besides the ballast.
  const auto& params = cluster_.params();
  const auto bucket = params.bucket_size * (params.slot_size() + BucketVersion::kTrailer);
  cluster_.disk(2).leave_space((std::uint64_t{2} << height) * bucket * 3 / 2 + (4u << 20));
  const auto room = [&] { return cluster_.engine().room().blocks + more(); };
  wait_until([&] { return room() > 0; });
  EXPECT_EQ(room() + cluster_.engine().status().blocks, capacity(height + 1, params.evict_every));
}

// Servers do not see that a program asks for the free room, as every program that writes does.
TEST_P(Space, NobodySeesThatAProgramWantsToKnow) {
  for (; next_ < 20; ++next_) ASSERT_OK(write(next_, 1));
  wait_until([&] { return cluster_.engine().room().more > 0; });
  cluster_.settle();
  unsigned messages = 0;
  cluster_.network.filter = [&](Party, Party, const Bytes&) {
    ++messages;
    return true;
  };
  const Duration limit = cluster_.clock.now() + std::chrono::minutes(1);
  wait_until([&] {
    cluster_.engine().room();
    cluster_.engine().look_for_room();
    return cluster_.clock.now() > limit;
  });
  cluster_.network.filter = {};
  EXPECT_EQ(messages, 0u);
}

TEST_P(Space, OnAFullDiskTheClientReadsOverwritesAndDeletes) {
  for (; next_ < 20; ++next_) ASSERT_OK(write(next_, 1));
  cluster_.disk(kClient).leave_space(0);
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_NO_FATAL_FAILURE(work_on(0));  // new blocks need room on the client too
  ASSERT_OK(cluster_.close_client());
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(check_all());
  cluster_.disk(kClient).leave_space({});
  ASSERT_NO_FATAL_FAILURE(wait_for_room());
  check_all();
}

}  // namespace
}  // namespace s3oram
