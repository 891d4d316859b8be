// Triplet eviction (Subroutine 3).
#include "oramcore/protocol/plan.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/protocol/plain_tree.h"

namespace s3oram {
namespace {

using test::leaf_from;
using test::PlainTree;

VolumeParams matrix(std::uint16_t bucket_size, std::uint16_t evict_every) {
  return {{1, 3}, 512, bucket_size, evict_every};
}

struct Case {
  unsigned height;
  std::uint16_t evict_every, bucket_size;
};

class Plans : public testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(Plans, LoseNoBlockAndEmptyThePath) {
  const auto [shape, seed] = GetParam();
  std::mt19937_64 random(seed);
  PlainTree tree(matrix(shape.bucket_size, shape.evict_every), shape.height);
  const std::uint64_t blocks = capacity(shape.height, shape.evict_every);
  for (std::uint64_t eviction = 0; eviction < 200; ++eviction) {
    // In some rounds accesses are ahead of the eviction.
    const WriteNumber ahead = random() % 4 == 0 ? random() % (shape.evict_every + 1) : 0;
    while (tree.written() < first_write_number(eviction + 1, shape.evict_every) + ahead)
      tree.write(random() % blocks, leaf_from(random));
    const auto plan = plan_eviction(matrix(shape.bucket_size, shape.evict_every), tree.path());
    ASSERT_TRUE(plan.overflow.empty());
    ASSERT_EQ(std::get<std::vector<MatrixStep>>(plan.movement).size(), shape.height + 1);
    tree.carry_out(plan);
    ASSERT_NO_FATAL_FAILURE(tree.check());
    for (unsigned level = 1; level < shape.height; ++level)
      ASSERT_EQ(tree.load(eviction, level), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Plans,
                         testing::Combine(testing::Values(Case{1, 4, 32}, Case{2, 4, 32},
                                                          Case{3, 16, 72}, Case{5, 8, 50},
                                                          Case{7, 16, 72}),
                                          testing::Range(1, 6)));

TEST(Plans, NeverOverfillABucketButNameWhoDoesNotFit) {
  // Z is so small that plans often lack slots. The blocks named as overflow are taken away (the
  // client takes them into its stash); then the new plan has room for all, or names further blocks.
  std::mt19937_64 random(7);
  constexpr std::uint16_t kZ = 6, kEvery = 4;
  constexpr unsigned kHeight = 4;
  const VolumeParams params = matrix(kZ, kEvery);
  PlainTree tree(params, kHeight);
  std::uint64_t next = 0, overflows = 0;
  for (std::uint64_t eviction = 0; eviction < 2000; ++eviction) {
    for (int i = 0; i < kEvery; ++i) tree.write(next++, leaf_from(random));
    auto plan = plan_triplet_eviction(params, tree.path());
    while (!plan.overflow.empty()) {
      overflows += plan.overflow.size();
      for (const auto block : plan.overflow) tree.remove(block);
      plan = plan_triplet_eviction(params, tree.path());
    }
    for (const auto& step : std::get<std::vector<MatrixStep>>(plan.movement)) {
      std::set<int> from, to;
      for (const auto& move : step.moves) {
        ASSERT_LT(move.from, 2 * kZ);
        ASSERT_LT(move.to, kZ);
        ASSERT_TRUE(from.insert(move.from).second);
        ASSERT_TRUE(to.insert(move.to).second);
      }
    }
    tree.carry_out(plan);
    ASSERT_NO_FATAL_FAILURE(tree.check());
    while (tree.positions().size() > capacity(kHeight, kEvery))
      tree.remove(tree.positions().begin()->first);
  }
  EXPECT_GT(overflows, 0u);
}

}  // namespace
}  // namespace s3oram
