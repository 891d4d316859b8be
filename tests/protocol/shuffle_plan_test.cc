// Plans of the shuffle evictor: a permutation of the whole path that puts every block as deep as
// there is room.
#include <gtest/gtest.h>

#include <random>

#include "tests/harness/volumes.h"
#include "tests/protocol/plain_tree.h"

namespace s3oram {
namespace {

using test::leaf_from;
using test::PlainTree;
using test::shuffle_volume;

unsigned deepest(Leaf leaf, std::uint64_t eviction, unsigned height) {
  unsigned level = 0;
  while (level < height && bucket_on_path(leaf, level + 1) == bucket_on_path(eviction, level + 1))
    ++level;
  return level;
}

struct Shape {
  unsigned height;
  std::uint16_t bucket_size, evict_every, stash;
};

class ShufflePlans : public testing::TestWithParam<std::tuple<Shape, int>> {
 protected:
  /// Checks the plan against its own description.
  void check(const PlainTree& tree, const EvictionPath& path, const EvictionPlan& plan) {
    const unsigned height = std::get<0>(GetParam()).height;
    const auto& to = std::get<Permutation>(plan.movement);
    ASSERT_EQ(to.size(), tree.evicted().count());
    ASSERT_TRUE(is_permutation(to));
    std::map<std::uint64_t, Placement> placed;
    std::vector<std::size_t> load(height + 1);
    for (const Placement& placement : plan.placements) {
      ASSERT_TRUE(placed.emplace(placement.block, placement).second);
      ++load[placement.level];
    }
    std::size_t blocks = 0;
    for (unsigned level = 0; level <= height; ++level)
      for (const Resident& resident : path.on_path[level]) {
        ++blocks;
        ASSERT_TRUE(placed.contains(resident.block));
        const Placement& placement = placed.at(resident.block);
        ASSERT_EQ(placement.version, resident.version);
        const PathSlots slots = tree.evicted();
        ASSERT_EQ(to[slots.index(level, resident.slot)],
                  slots.index(placement.level, placement.slot));
        ASSERT_GE(slots.index(placement.level, placement.slot), slots.writes())
            << "the places of evicted writes are dropped";
        const unsigned goal = deepest(resident.leaf, path.eviction, height);
        ASSERT_LE(placement.level, goal);
        for (unsigned deeper = placement.level + 1u; deeper <= goal; ++deeper)
          ASSERT_EQ(load[deeper], std::get<0>(GetParam()).bucket_size) << "there was room";
      }
    ASSERT_EQ(placed.size(), blocks);
    leftover_ += load[0];
  }

  std::size_t leftover_ = 0;
};

TEST_P(ShufflePlans, PutEveryBlockAsDeepAsRoomAllows) {
  const auto [shape, seed] = GetParam();
  const VolumeParams params = shuffle_volume(shape.bucket_size, shape.evict_every, shape.stash);
  std::mt19937_64 random(seed);
  PlainTree tree(params, shape.height);
  const std::uint64_t blocks = capacity(shape.height, shape.evict_every);
  for (std::uint64_t eviction = 0; eviction < 200; ++eviction) {
    const WriteNumber ahead = random() % 3 == 0 ? random() % (shape.evict_every + 1u) : 0;
    while (tree.written() < first_write_number(eviction + 1, shape.evict_every) + ahead)
      tree.write(random() % 8 == 0 ? PlainTree::kNothing : random() % blocks, leaf_from(random));
    const EvictionPath path = tree.path();
    const EvictionPlan plan = plan_eviction(params, path);
    ASSERT_TRUE(plan.overflow.empty());
    ASSERT_NO_FATAL_FAILURE(check(tree, path, plan));
    // Some blocks are rewritten before the plan is decided, and keep their newer places.
    while (tree.written() < end_write_number(eviction, shape.evict_every) && random() % 4 == 0)
      tree.write(random() % blocks, leaf_from(random));
    tree.carry_out(plan);
    ASSERT_NO_FATAL_FAILURE(tree.check());
  }
}

TEST_P(ShufflePlans, AreTheSameForTheSamePath) {
  const auto [shape, seed] = GetParam();
  const VolumeParams params = shuffle_volume(shape.bucket_size, shape.evict_every, shape.stash);
  std::mt19937_64 random(seed);
  PlainTree tree(params, shape.height);
  for (std::uint64_t block = 0; block < shape.evict_every; ++block)
    tree.write(block, leaf_from(random));
  const auto movement = [&] { return plan_shuffle_eviction(params, tree.path()).movement; };
  EXPECT_EQ(std::get<Permutation>(movement()), std::get<Permutation>(movement()));
}

INSTANTIATE_TEST_SUITE_P(Shapes, ShufflePlans,
                         testing::Combine(testing::Values(Shape{1, 8, 8, 56}, Shape{2, 4, 3, 48},
                                                          Shape{4, 8, 8, 56}, Shape{3, 1, 1, 40},
                                                          Shape{5, 16, 20, 96}),
                                          testing::Range(1, 5)));

TEST(ShufflePlan, LeavesBehindWhatFindsNoRoomBelow) {
  // The blocks' paths share only the root with the evicted path, so all blocks stay in the root's
  // stash part.
  constexpr std::uint16_t kZ = 2, kEvery = 4, kStash = 4;
  const VolumeParams params = shuffle_volume(kZ, kEvery, kStash);
  PlainTree tree(params, 3);
  for (std::uint64_t block = 0; block < kEvery; ++block) tree.write(block, 1);
  EvictionPlan plan = plan_shuffle_eviction(params, tree.path());
  EXPECT_TRUE(plan.overflow.empty());
  ASSERT_EQ(plan.placements.size(), 4u);
  for (const Placement& placement : plan.placements) {
    EXPECT_EQ(placement.level, 0);
    EXPECT_GE(placement.slot, params.root_buffer_slots());
  }
  tree.carry_out(plan);
  tree.check();
  // The next path is theirs, with three buckets of two slots; and four more blocks leave it at the
  // root.
  for (std::uint64_t block = 4; block < 4 + kEvery; ++block) tree.write(block, 0);
  plan = plan_shuffle_eviction(params, tree.path());
  EXPECT_TRUE(plan.overflow.empty());
  tree.carry_out(plan);
  tree.check();
  EXPECT_EQ(tree.load(1, 3), 2u);
  EXPECT_EQ(tree.load(1, 2), 2u);
  EXPECT_EQ(tree.load(0, 0), 4u);
}

TEST(ShufflePlan, NamesWhoDoesNotFitWhenTheStashPartIsFull) {
  constexpr std::uint16_t kZ = 2, kEvery = 4, kStash = 2;
  const VolumeParams params = shuffle_volume(kZ, kEvery, kStash);
  PlainTree tree(params, 3);
  for (std::uint64_t block = 0; block < kEvery; ++block) tree.write(block, 1);
  EvictionPlan plan = plan_shuffle_eviction(params, tree.path());
  ASSERT_EQ(plan.overflow.size(), 2u);
  EXPECT_EQ(plan.placements.size(), 2u);
  for (const std::uint64_t block : plan.overflow) tree.remove(block);
  plan = plan_shuffle_eviction(params, tree.path());
  EXPECT_TRUE(plan.overflow.empty());
  EXPECT_TRUE(is_permutation(std::get<Permutation>(plan.movement)));
  tree.carry_out(plan);
  tree.check();
  EXPECT_EQ(tree.positions().size(), 2u);
}

TEST(ShufflePlan, StashPartsThatAreTooSmallLoseNothing) {
  std::mt19937_64 random(9);
  constexpr std::uint16_t kZ = 3, kEvery = 5, kStash = 3;
  constexpr unsigned kHeight = 4;
  const VolumeParams params = shuffle_volume(kZ, kEvery, kStash);
  PlainTree tree(params, kHeight);
  std::uint64_t next = 0, overflows = 0;
  for (std::uint64_t eviction = 0; eviction < 3000; ++eviction) {
    for (int i = 0; i < kEvery; ++i) tree.write(next++, leaf_from(random));
    EvictionPlan plan = plan_shuffle_eviction(params, tree.path());
    const auto before = tree.positions().size();
    ASSERT_TRUE(plan.overflow.empty() || plan.placements.size() < before);
    overflows += plan.overflow.size();
    for (const auto block : plan.overflow) tree.remove(block);
    plan = plan_shuffle_eviction(params, tree.path());
    ASSERT_TRUE(plan.overflow.empty()) << "one plan names all blocks that do not fit";
    tree.carry_out(plan);
    ASSERT_NO_FATAL_FAILURE(tree.check());
    while (tree.positions().size() > capacity(kHeight, kEvery))
      tree.remove(tree.positions().begin()->first);
  }
  EXPECT_GT(overflows, 0u);
}

}  // namespace
}  // namespace s3oram
