// Tests that bucket versions are stored, checked, cached and found again.
#include "serverd/store/bucket_store.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "tests/harness/memory_file.h"

namespace s3oram {
namespace {

using test::MemoryDisk;

constexpr std::size_t kRootBufferSlots = 3, kSlots = 4, kSlotSize = 40,
                      kStride = kSlotSize + BucketVersion::kTrailer;
constexpr std::size_t kCachedBucketVersions = 4;  // the smallest number that a store keeps

class BucketStoreTest : public testing::Test {
 protected:
  BucketStore fresh() {
    return {test::memory_file(disk_), as_bytes("server 1"), kRootBufferSlots, kSlots, kSlotSize, 0};
  }

  static std::shared_ptr<BucketVersion> filled(std::uint8_t tag) {
    auto bucket_version = std::make_shared<BucketVersion>(kSlots, kSlotSize);
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      std::fill_n(bucket_version->slot(slot), kSlotSize, static_cast<std::uint8_t>(tag + slot));
    return bucket_version;
  }
  static void expect_filled(const Result<std::shared_ptr<const BucketVersion>>& bucket_version,
                            std::uint8_t tag, std::size_t slots = kSlots) {
    ASSERT_TRUE(bucket_version) << bucket_version.error().message;
    for (std::size_t slot = 0; slot < slots; ++slot)
      for (std::size_t i = 0; i < kSlotSize; ++i)
        ASSERT_EQ((*bucket_version)->slot(slot)[i], static_cast<std::uint8_t>(tag + slot));
  }
  static std::size_t place(BucketVersionNumber bucket_version, std::size_t slot) {
    return (bucket_version == kRootBuffer
                ? slot
                : kRootBufferSlots + (bucket_version - 1) * kSlots + slot) *
           kStride;
  }

  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
  BucketStore store_ = fresh();
};

TEST_F(BucketStoreTest, FindsBucketVersionsAgainAfterARestart) {
  for (BucketVersionNumber bucket_version = 1; bucket_version <= 10; ++bucket_version)
    ASSERT_TRUE(store_.write(bucket_version, filled(static_cast<std::uint8_t>(bucket_version * 10)),
                             bucket_version));
  EXPECT_EQ(disk_->content.size(), (kRootBufferSlots + 10 * kSlots) * kStride);
  auto again = fresh();
  for (BucketVersionNumber bucket_version = 1; bucket_version <= 10; ++bucket_version)
    expect_filled(again.read({bucket_version, kSlots}),
                  static_cast<std::uint8_t>(bucket_version * 10));
}

TEST_F(BucketStoreTest, NoticesEveryFlippedBitAndNamesTheSlot) {
  ASSERT_TRUE(store_.write(3, filled(1), 77));
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    for (std::size_t bit = 0; bit < kStride * 8; ++bit) {
      auto& byte = disk_->content[place(3, slot) + bit / 8];
      const auto mask = static_cast<std::uint8_t>(1 << bit % 8);
      byte ^= mask;
      auto again = fresh();
      const auto bucket_version = again.read({3, kSlots});
      ASSERT_FALSE(bucket_version) << "slot " << slot << " bit " << bit;
      ASSERT_EQ(bucket_version.error().code, Errc::corrupt);
      ASSERT_EQ(bucket_version.error().message,
                "slot " + std::to_string(slot) + " of bucket version 3 is damaged on disk");
      // The slots before it can still be read; only this one cannot.
      expect_filled(again.read({3, static_cast<std::uint16_t>(slot)}), 1, slot);
      const auto one = again.read_slot(3, slot);
      ASSERT_TRUE(one);
      ASSERT_FALSE(*one);
      byte ^= mask;
    }
  auto again = fresh();
  expect_filled(again.read({3, kSlots}), 1);
}

TEST_F(BucketStoreTest, NoticesWhatWasWrittenToAnotherPlace) {
  ASSERT_TRUE(store_.write(1, filled(10), 5));
  ASSERT_TRUE(store_.write(2, filled(10), 5));
  const auto move = [&](std::size_t from, std::size_t to, std::size_t size) {
    std::copy_n(disk_->content.begin() + static_cast<std::ptrdiff_t>(from), size,
                disk_->content.begin() + static_cast<std::ptrdiff_t>(to));
  };
  move(place(1, 0), place(2, 0), kStride * kSlots);  // one bucket version over another
  auto again = fresh();
  EXPECT_FALSE(again.read({2, kSlots}));
  move(place(1, 0), place(1, 1), kStride);  // a slot over the next one
  EXPECT_TRUE(again.read({1, 1}));
  EXPECT_FALSE(again.read({1, 2}));
}

TEST_F(BucketStoreTest, NoticesWhatAnotherServerWrote) {
  ASSERT_TRUE(store_.write(1, filled(10), 5));
  ASSERT_TRUE(store_.write_slot(kRootBuffer, 0, Bytes(kSlotSize, 9), 6));
  BucketStore other(test::memory_file(disk_), as_bytes("server 2"), kRootBufferSlots, kSlots,
                    kSlotSize, 0);
  EXPECT_FALSE(other.read({1, kSlots, 5}));
  EXPECT_FALSE(*other.read_slot(1, 0, 5));
  EXPECT_FALSE(*other.read_slot(kRootBuffer, 0));
  EXPECT_EQ(other.damaged({1, 2, 5})->size(), 2u);
}

TEST_F(BucketStoreTest, NoticesWhatIsOfAnotherTime) {
  ASSERT_TRUE(store_.write(1, filled(10), 5));
  const Bytes former = disk_->content;
  ASSERT_TRUE(store_.write(1, filled(20), 9));
  disk_->content = former;
  auto again = fresh();
  EXPECT_FALSE(again.read({1, kSlots, 9}));
  EXPECT_FALSE(*again.read_slot(1, 0, 9));
  EXPECT_EQ(again.damaged({1, kSlots, 9})->size(), kSlots);
  expect_filled(again.read({1, kSlots, 5}), 10);
  expect_filled(fresh().read({1, kSlots}), 10);  // a store of format 2 does not notice
}

// A bucket version that has decayed still belongs to this store.
TEST_F(BucketStoreTest, TellsAnotherFileFromRot) {
  const std::vector<Bytes> others = {{'a'}, {'b'}};
  ASSERT_TRUE(store_.write(2, filled(1), 77));
  EXPECT_FALSE(store_.is_foreign(2, 0, 77, others));
  disk_->content[place(2, 0) + 5] ^= 1;
  EXPECT_FALSE(store_.is_foreign(2, 0, 77, others)) << "it has decayed";
  EXPECT_TRUE(store_.is_foreign(2, 1, 78, others)) << "it is from another time";
  EXPECT_TRUE(store_.is_foreign(3, 0, 77, others)) << "never written";
  BucketStore another(test::memory_file(disk_), as_bytes("b"), kRootBufferSlots, kSlots, kSlotSize,
                      0);
  ASSERT_TRUE(another.write(2, filled(1), 77));
  EXPECT_TRUE(store_.is_foreign(2, 0, 77, others)) << "it belongs to another server";
  disk_->fail_reads = true;
  EXPECT_FALSE(store_.is_foreign(2, 0, 77, others)) << "nobody knows";
}

TEST_F(BucketStoreTest, TakesUnwrittenSlotsForDamaged) {
  EXPECT_FALSE(store_.read({1, 1})) << "zeros are not a slot";
  ASSERT_TRUE(store_.write_slot(1, 0, Bytes(kSlotSize, 9), 1));
  EXPECT_TRUE(store_.read({1, 1}));
  EXPECT_FALSE(store_.read({1, 2}));
}

TEST_F(BucketStoreTest, WritesAndReadsSingleSlots) {
  auto none = store_.read_slot(2, 3);
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  ASSERT_TRUE(store_.write_slot(2, 3, Bytes(kSlotSize, 9), 0x123456789abcdef0));
  auto found = store_.read_slot(2, 3);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->stamp, 0x123456789abcdef0u);
  EXPECT_EQ((*found)->content, Bytes(kSlotSize, 9));
  auto neighbour = store_.read_slot(2, 2);
  ASSERT_TRUE(neighbour);
  EXPECT_FALSE(*neighbour);
  // Half of a newer write: the slot is neither the new one nor the old one, but damaged.
  const Bytes before = disk_->content;
  ASSERT_TRUE(store_.write_slot(2, 3, Bytes(kSlotSize, 8), 0x123456789abcdef1));
  std::copy(before.begin() + static_cast<std::ptrdiff_t>(place(2, 3) + kStride / 2), before.end(),
            disk_->content.begin() + static_cast<std::ptrdiff_t>(place(2, 3) + kStride / 2));
  auto torn = store_.read_slot(2, 3);
  ASSERT_TRUE(torn);
  EXPECT_FALSE(*torn);
}

TEST_F(BucketStoreTest, KeepsTheRootBufferBeforeTheBucketVersionsAndNeverInTheCache) {
  ASSERT_TRUE(store_.write(1, filled(50), 1));
  for (std::size_t slot = 0; slot < kRootBufferSlots; ++slot)
    ASSERT_TRUE(store_.write_slot(kRootBuffer, slot, Bytes(kSlotSize, 9), 20 + slot));
  for (int i = 0; i < 2; ++i) {
    auto again = fresh();
    for (std::size_t slot = 0; slot < kRootBufferSlots; ++slot) {
      disk_->reads = 0;
      const auto found = again.read_slot(kRootBuffer, slot);
      ASSERT_TRUE(found && *found);
      EXPECT_EQ((*found)->stamp, 20 + slot);
      EXPECT_EQ((*found)->content, Bytes(kSlotSize, 9));
      EXPECT_EQ(disk_->reads, 1);
    }
    expect_filled(again.read({1, kSlots}), 50);
  }
  // Written in place: an older write is gone, and the neighbouring slots are as they were.
  ASSERT_TRUE(store_.write_slot(kRootBuffer, 1, Bytes(kSlotSize, 8), 30));
  EXPECT_EQ((*store_.read_slot(kRootBuffer, 1))->stamp, 30u);
  EXPECT_EQ((*store_.read_slot(kRootBuffer, 0))->stamp, 20u);
  EXPECT_EQ((*store_.read_slot(kRootBuffer, 2))->stamp, 22u);
  // A slot of the root buffer is not a slot of a bucket version.
  std::copy_n(disk_->content.begin(), kStride,
              disk_->content.begin() + static_cast<std::ptrdiff_t>(place(1, 0)));
  EXPECT_FALSE(fresh().read({1, 1}));
  disk_->content[place(kRootBuffer, 2) + 5] ^= 1;
  const auto damaged = store_.read_slot(kRootBuffer, 2);
  ASSERT_TRUE(damaged);
  EXPECT_FALSE(*damaged);
}

TEST_F(BucketStoreTest, ReadsACachedBucketVersionOnlyOnce) {
  for (BucketVersionNumber bucket_version = 1; bucket_version <= kCachedBucketVersions + 1;
       ++bucket_version)
    ASSERT_TRUE(store_.write(bucket_version, filled(static_cast<std::uint8_t>(bucket_version)), 1));
  // Bucket version 1 was the oldest and had to go.
  disk_->reads = 0;
  expect_filled(store_.read({2, kSlots}), 2);
  EXPECT_EQ(disk_->reads, 0);
  expect_filled(store_.read({1, kSlots}), 1);
  EXPECT_EQ(disk_->reads, 1);
  // Bucket version 3 was the least recently used, not 2.
  expect_filled(store_.read({2, kSlots}), 2);
  EXPECT_EQ(disk_->reads, 1);
  expect_filled(store_.read({3, kSlots}), 3);
  EXPECT_EQ(disk_->reads, 2);
  store_.forget(3);
  expect_filled(store_.read({3, kSlots}), 3);
  EXPECT_EQ(disk_->reads, 3);
  store_.forget(99);
}

TEST_F(BucketStoreTest, KeepsTheTopOfTheTree) {
  const auto level_of_bucket_version = [](BucketVersionNumber bucket_version) {
    return bucket_version <= 3 ? bucket_version - 1 : 9;
  };
  const auto read = [&](BucketVersionNumber bucket_version) {
    expect_filled(store_.read({bucket_version, kSlots}, level_of_bucket_version(bucket_version)),
                  static_cast<std::uint8_t>(bucket_version));
  };
  for (BucketVersionNumber bucket_version = 1; bucket_version <= 20; ++bucket_version)
    ASSERT_TRUE(store_.write(bucket_version, filled(static_cast<std::uint8_t>(bucket_version)), 1,
                             level_of_bucket_version(bucket_version)));
  for (BucketVersionNumber bucket_version = 4; bucket_version <= 20; ++bucket_version)
    read(bucket_version);
  disk_->reads = 0;
  for (BucketVersionNumber bucket_version = 1; bucket_version <= 3; ++bucket_version) {
    EXPECT_TRUE(store_.cached({bucket_version, kSlots}));
    read(bucket_version);
  }
  EXPECT_EQ(disk_->reads, 0) << "leaves have displaced the top";
  EXPECT_TRUE(store_.cached({20, kSlots})) << "there is room for one leaf";
  EXPECT_FALSE(store_.cached({19, kSlots}));
  EXPECT_FALSE(store_.cached({99, 1}));
  // The tree has grown, so the cache's deepest level is now a different one.
  expect_filled(store_.read({3, kSlots}, 10), 3);
  read(19);
  EXPECT_TRUE(store_.cached({20, kSlots}) && store_.cached({19, kSlots}));
  EXPECT_FALSE(store_.cached({3, kSlots}));
  // A version that is no longer needed makes room, whatever its level was.
  store_.forget(1);
  read(18);
  EXPECT_TRUE(store_.cached({19, kSlots}) && store_.cached({20, kSlots}));
}

TEST_F(BucketStoreTest, ACopyIsOnesOwnAndNotKept) {
  for (BucketVersionNumber bucket_version = 1; bucket_version <= kCachedBucketVersions + 1;
       ++bucket_version)
    ASSERT_TRUE(store_.write(bucket_version, filled(static_cast<std::uint8_t>(bucket_version)), 1));
  for (const BucketVersionNumber bucket_version : {1, 2}) {
    const BucketVersionRef ref{bucket_version, kSlots, 1};
    const bool cached = store_.cached(ref);
    disk_->reads = 0;
    auto copy = store_.copy(ref);
    expect_filled(copy, static_cast<std::uint8_t>(bucket_version));
    EXPECT_EQ(disk_->reads, cached ? 0 : 1);
    EXPECT_EQ(store_.cached(ref), cached);
    (*copy)->slot(1)[3] ^= 1;
    expect_filled(store_.read(ref), static_cast<std::uint8_t>(bucket_version));
  }
  disk_->content[place(4, 1)] ^= 1;
  store_.forget(4);
  const auto damaged = store_.copy({4, kSlots});
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Errc::corrupt);
  EXPECT_TRUE(store_.copy({})) << "of no bucket version, so its content does not matter";
}

TEST(VersionPoolTest, GivesWhatCameBack) {
  auto pool = std::make_shared<VersionPool>(kSlots, kSlotSize);
  auto first = VersionPool::take(pool), second = VersionPool::take(pool);
  const BucketVersion* const was = first.get();
  EXPECT_NE(second.get(), was);
  first.reset();
  EXPECT_EQ(VersionPool::take(pool).get(), was);
  pool.reset();
  std::fill_n(second->slot(0), kSlots * kStride, std::uint8_t{1});  // outlives it
}

TEST_F(BucketStoreTest, ChecksMoreSlotsWhenMoreAreAskedFor) {
  ASSERT_TRUE(store_.write_slot(1, 0, Bytes(kSlotSize, 1), 1));
  ASSERT_TRUE(store_.write_slot(1, 1, Bytes(kSlotSize, 2), 2));
  expect_filled(store_.read({1, 2}), 1, 2);
  EXPECT_FALSE(store_.read({1, 3})) << "two were checked, the third never";
  ASSERT_TRUE(store_.write_slot(1, 2, Bytes(kSlotSize, 3), 3));
  expect_filled(store_.read({1, 3}), 1, 3);
}

TEST_F(BucketStoreTest, KeepsTheDisksQueueShort) {
  constexpr std::size_t kLargeSlot = BucketStore::kMostUnderWay * 3 / 4;
  BucketStore store(test::memory_file(disk_), as_bytes("server 1"), kRootBufferSlots, kSlots,
                    kLargeSlot, 0);
  const auto bucket_version = std::make_shared<BucketVersion>(kSlots, kLargeSlot);
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    std::fill_n(bucket_version->slot(slot), kLargeSlot, static_cast<std::uint8_t>(slot));
  ASSERT_TRUE(store.write(2, bucket_version, 1));
  EXPECT_EQ(disk_->most_under_way, BucketStore::kMostUnderWay);
  EXPECT_EQ(disk_->under_way, 0U);
  const auto damaged = store.damaged({2, kSlots, 1});
  ASSERT_TRUE(damaged);
  EXPECT_TRUE(damaged->empty()) << "every part is in its place";
}

TEST_F(BucketStoreTest, ReportsFailures) {
  std::ostringstream log;
  const auto former = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  ASSERT_TRUE(store_.write(1, filled(1), 1));
  EXPECT_EQ(log.str(), "");
  disk_->fail_writes = true;
  auto status = store_.write(1, filled(50), 2);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::disk_full);
  EXPECT_FALSE(store_.write_slot(2, 0, Bytes(kSlotSize), 1));
  EXPECT_FALSE(store_.write(2, filled(2), 1));
  disk_->fail_writes = false;
  expect_filled(store_.read({1, kSlots}), 1);
  EXPECT_FALSE(store_.read({2, kSlots})) << "content that could not be written is not in the cache";
  disk_->fail_reads = true;
  store_.forget(1);
  EXPECT_FALSE(store_.read({1, kSlots}));
  EXPECT_FALSE(store_.read_slot(1, 0));
  disk_->fail_syncs = true;
  EXPECT_FALSE(store_.sync());
  spdlog::set_default_logger(former);
  EXPECT_NE(log.str().find(status.error().message), std::string::npos) << log.str();
  EXPECT_EQ(std::ranges::count(log.str(), '\n'), 1) << "the log is not flooded: " << log.str();
}

// A late repetition of a retrieval reads a bucket version whose number is being reused. What it has
// read must not stay in the cache.
TEST_F(BucketStoreTest, AReadThatAWriteOvertakesIsNotRemembered) {
  ASSERT_TRUE(store_.write(1, filled(10), 1));
  store_.forget(1);
  disk_->after_read = [&] { ASSERT_TRUE(store_.write(1, filled(100), 2)); };
  expect_filled(store_.read({1, kSlots}), 10);
  expect_filled(store_.read({1, kSlots}), 100);

  store_.forget(1);
  disk_->after_read = [&] {
    store_.forget(1);
    ASSERT_TRUE(store_.write_slot(1, 0, Bytes(kSlotSize, 200), 3));
  };
  expect_filled(store_.read({1, 1}), 100, 1);
  expect_filled(store_.read({1, 1}), 200, 1);
}

}  // namespace
}  // namespace s3oram
