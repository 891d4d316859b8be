#include "oramcore/tree/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "oramcore/tree/bounds.h"

namespace s3oram {
namespace {

constexpr std::uint64_t kNothing = ~std::uint64_t{0};

// A tree of plain block numbers that carries plans out literally, as the servers do: matrices
// move slots, siblings become copies, dead copies stay lying about.
class PlainTree {
 public:
  PlainTree(unsigned height, std::uint16_t bucket_size)
      : height_(height),
        bucket_size_(bucket_size),
        slots_(bucket_count(height) + 1, std::vector<std::uint64_t>(bucket_size, kNothing)) {}

  struct Position {
    BucketIndex bucket;
    std::uint16_t slot;
    Leaf leaf;
  };

  void put_in_root(std::uint64_t block, std::uint16_t slot, Leaf leaf) {
    slots_[kRoot][slot] = block;
    positions_[block] = {kRoot, slot, leaf};
  }
  void remove(std::uint64_t block) { positions_.erase(block); }
  const std::map<std::uint64_t, Position>& positions() const { return positions_; }

  EvictionPath path(std::uint64_t eviction) const {
    EvictionPath path{eviction, height_, bucket_size_, {}, {}};
    path.on_path.resize(height_ + 1);
    const BucketIndex aside = sibling_of(bucket_on_path(eviction, height_));
    for (const auto& [block, at] : positions_) {
      const unsigned level = level_of(at.bucket);
      if (bucket_on_path(eviction, level) == at.bucket)
        path.on_path[level].push_back({block, at.slot, at.leaf});
      if (at.bucket == aside) path.leaf_sibling.push_back({block, at.slot, at.leaf});
    }
    return path;
  }

  void carry_out(const EvictionPath& path, const EvictionPlan& plan) {
    const auto apply = [&](const MatrixStep& step, BucketIndex source, BucketIndex target) {
      std::vector<std::uint64_t> after(bucket_size_, kNothing);
      for (const auto& move : step.moves)
        after[move.to] = move.from < bucket_size_ ? slots_[source][move.from]
                                                  : slots_[target][move.from - bucket_size_];
      return after;
    };
    for (unsigned level = 1; level <= height_; ++level) {
      const BucketIndex source = bucket_on_path(path.eviction, level - 1);
      const BucketIndex target = bucket_on_path(path.eviction, level);
      auto down = apply(plan.steps[level - 1], source, target);
      slots_[sibling_of(target)] =
          level < height_ ? slots_[source] : apply(plan.steps[level], source, sibling_of(target));
      slots_[target] = std::move(down);
      slots_[source].assign(bucket_size_, kNothing);
    }
    for (const auto& placement : plan.placements) {
      auto& at = positions_.at(placement.block);
      at.bucket = bucket_on_path(at.leaf, placement.level);
      at.slot = placement.slot;
    }
  }

  void check() const {
    for (const auto& [block, at] : positions_) {
      ASSERT_EQ(slots_[at.bucket][at.slot], block);
      ASSERT_EQ(bucket_on_path(at.leaf, level_of(at.bucket)), at.bucket);
    }
  }

 private:
  unsigned height_;
  std::uint16_t bucket_size_;
  std::vector<std::vector<std::uint64_t>> slots_;
  std::map<std::uint64_t, Position> positions_;
};

struct Case {
  unsigned height;
  unsigned evict_every;
  std::uint16_t bucket_size;
};

class Plans : public testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(Plans, LoseNoBlockAndEmptyThePath) {
  const auto [shape, seed] = GetParam();
  std::mt19937_64 random(seed);
  PlainTree tree(shape.height, shape.bucket_size);
  const std::uint64_t blocks = capacity(shape.height, shape.evict_every);
  for (std::uint64_t eviction = 0; eviction < 200; ++eviction) {
    std::set<std::uint64_t> written;
    while (written.size() < std::min<std::uint64_t>(shape.evict_every, blocks))
      written.insert(random() % blocks);
    std::uint16_t slot = 0;
    for (std::uint64_t block : written)
      tree.put_in_root(block, slot++, random() & ((Leaf{1} << kLeafBits) - 1));
    const auto path = tree.path(eviction);
    const auto plan = plan_triplet_eviction(path);
    ASSERT_TRUE(plan.overflow.empty());
    ASSERT_EQ(plan.steps.size(), shape.height + 1);
    tree.carry_out(path, plan);
    ASSERT_NO_FATAL_FAILURE(tree.check());
    for (const auto& [block, at] : tree.positions())
      for (unsigned level = 0; level < shape.height; ++level)
        ASSERT_NE(at.bucket, bucket_on_path(eviction, level)) << block;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Plans,
                         testing::Combine(testing::Values(Case{1, 4, 32}, Case{2, 4, 32},
                                                          Case{3, 16, 72}, Case{5, 8, 50},
                                                          Case{7, 16, 72}),
                                          testing::Range(1, 6)));

TEST(Plans, NeverOverfillABucketButNameWhoDoesNotFit) {
  // Z so small that plans often do not fit: what is named as overflow is taken away (as the client
  // does by pulling blocks up), and then the new plan fits or names further blocks.
  std::mt19937_64 random(7);
  constexpr std::uint16_t kZ = 6;
  constexpr unsigned kHeight = 4, kEvery = 4;
  PlainTree tree(kHeight, kZ);
  std::uint64_t next = 0, overflows = 0;
  for (std::uint64_t eviction = 0; eviction < 2000; ++eviction) {
    for (std::uint16_t slot = 0; slot < kEvery; ++slot)
      tree.put_in_root(next++, slot, random() & ((Leaf{1} << kLeafBits) - 1));
    auto path = tree.path(eviction);
    auto plan = plan_triplet_eviction(path);
    while (!plan.overflow.empty()) {
      overflows += plan.overflow.size();
      for (const auto block : plan.overflow) tree.remove(block);
      path = tree.path(eviction);
      plan = plan_triplet_eviction(path);
    }
    for (const auto& step : plan.steps) {
      std::set<int> from, to;
      for (const auto& move : step.moves) {
        ASSERT_LT(move.from, 2 * kZ);
        ASSERT_LT(move.to, kZ);
        ASSERT_TRUE(from.insert(move.from).second);
        ASSERT_TRUE(to.insert(move.to).second);
      }
    }
    tree.carry_out(path, plan);
    ASSERT_NO_FATAL_FAILURE(tree.check());
    while (tree.positions().size() > capacity(kHeight, kEvery))
      tree.remove(tree.positions().begin()->first);
  }
  EXPECT_GT(overflows, 0u);
}

}  // namespace
}  // namespace s3oram
