// Tests which slots a tree version and an eviction cover, and in which order.
#include "oramcore/protocol/layout.h"

#include <gtest/gtest.h>

#include <map>

namespace s3oram {
namespace {

VolumeParams params(std::uint16_t bucket_size, std::uint16_t evict_every, std::uint16_t stash) {
  return {
      .scheme = {}, .bucket_size = bucket_size, .evict_every = evict_every, .stash_slots = stash};
}

TEST(Layout, ATreeVersionHasTwoGroupsOfWriteNumbers) {
  EXPECT_EQ(first_write_number(0, 20), 0u);
  EXPECT_EQ(first_write_number(7, 20), 140u);
  EXPECT_EQ(end_write_number(7, 20), 180u);
  EXPECT_EQ(end_write_number(6, 20), first_write_number(8, 20))
      << "the second group of a tree version is the first of the next";
  EXPECT_EQ(root_slot(139, 20), 19);
  EXPECT_EQ(root_slot(140, 20), 20);
  EXPECT_EQ(root_slot(160, 20), 0);
  const WriteNumber late = first_write_number(std::uint64_t{1} << 56, 20);
  EXPECT_LT(root_slot(late + 5, 20), 40);
}

// Computed by hand: A = 3, Z = 2, two stash buckets.
TEST(Layout, SlotsComeInTheOrderOfWriteNumbersThenStashThenLevels) {
  const VolumeParams volume = params(2, 3, 4);
  const PathSlots slots(volume, 1, 7, 2);  // write numbers 3 to 6, in slots 3, 4, 5 and 0
  EXPECT_EQ(slots.writes(), 4u);
  EXPECT_EQ(slots.count(), 4u + 4 + 2 * 2);
  EXPECT_EQ(slots.height(), 2u);
  const std::uint16_t root_buffer[] = {3, 4, 5, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(slots.root_buffer_slot(i), root_buffer[i]);
    EXPECT_EQ(slots.index(0, root_buffer[i]), i);
    EXPECT_TRUE(slots.covers_root(root_buffer[i]));
  }
  EXPECT_FALSE(slots.covers_root(1));
  EXPECT_FALSE(slots.covers_root(2));
  for (std::uint16_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(slots.covers_root(6 + i));
    EXPECT_EQ(slots.index(0, 6 + i), 4u + i);
  }
  EXPECT_EQ(slots.index(1, 0), 8u);
  EXPECT_EQ(slots.index(1, 1), 9u);
  EXPECT_EQ(slots.index(2, 1), 11u);
}

TEST(Layout, EverySlotHasOneIndex) {
  for (const auto& volume : {params(2, 3, 4), params(8, 5, 0), params(16, 20, 96)})
    for (std::uint64_t tree_version = 0; tree_version < 5; ++tree_version)
      for (WriteNumber written = first_write_number(tree_version, volume.evict_every);
           written <= end_write_number(tree_version, volume.evict_every); ++written)
        for (unsigned height = 1; height <= 3; ++height) {
          const PathSlots slots(volume, tree_version, written, height);
          std::map<std::size_t, int> seen;
          for (std::uint16_t slot = 0; slot < volume.root_slots(); ++slot)
            if (slots.covers_root(slot)) ++seen[slots.index(0, slot)];
          for (unsigned level = 1; level <= height; ++level)
            for (std::uint16_t slot = 0; slot < volume.bucket_size; ++slot)
              ++seen[slots.index(level, slot)];
          ASSERT_EQ(seen.size(), slots.count());
          ASSERT_EQ(seen.rbegin()->first, slots.count() - 1);
          for (const auto& [index, times] : seen) ASSERT_EQ(times, 1);
        }
}

TEST(Layout, AnEvictionCoversTheFirstGroupAlone) {
  const VolumeParams volume = params(16, 20, 96);
  for (std::uint64_t tree_version = 0; tree_version < 4; ++tree_version) {
    const PathSlots slots = PathSlots::evicted(volume, tree_version, 5);
    EXPECT_EQ(slots.count(), 20u + 96 + 5 * 16);
    for (std::uint16_t slot = 0; slot < 40; ++slot)
      EXPECT_EQ(slots.covers_root(slot), slot / 20u == tree_version % 2) << slot;
    const PathSlots all(volume, tree_version, end_write_number(tree_version, 20), 5);
    EXPECT_EQ(all.count(), slots.count() + 20) << "a retrieval may cover both";
  }
}

}  // namespace
}  // namespace s3oram
