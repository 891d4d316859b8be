// The eviction planner: its two lemmas on random paths, and the occupancy of whole trees.
#include "oramcore/schemes/ring/client/eviction_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace s3oram::ring {
namespace {

/// A path whose buckets hold blocks that earlier evictions could have left there.
EvictionPath random_path(std::mt19937_64& random) {
  EvictionPath path;
  path.top_levels = 1 + static_cast<unsigned>(random() % 3);
  path.height = path.top_levels + static_cast<unsigned>(random() % 5);
  path.bucket_size = 1 + static_cast<unsigned>(random() % 4);
  path.leaf = random() % 256;
  BlockId next = 0;
  for (unsigned level = path.top_levels; level <= path.height; ++level) {
    auto& bucket = path.residents.emplace_back();
    const auto count = random() % (path.bucket_size + 1);
    // The block's leaf agrees with the path's at least down to the bucket.
    for (unsigned i = 0; i < count; ++i)
      bucket.push_back({next++, 1, path.leaf ^ (random() % 1024 << level)});
  }
  for (auto count = random() % 12; count > 0; --count)
    path.top.push_back({next++, 1, path.leaf ^ (random() % 1024 << path.top_levels)});
  return path;
}

TEST(EvictionPlan, PlacesEveryBlockOnceWhereItMayLie) {
  std::mt19937_64 random(1);
  for (int run = 0; run < 5000; ++run) {
    const EvictionPath path = random_path(random);
    const EvictionPlan plan = plan_eviction(path);
    std::set<BlockId> placed;
    ASSERT_EQ(plan.buckets.size(), path.residents.size());
    for (unsigned i = 0; i < plan.buckets.size(); ++i) {
      EXPECT_LE(plan.buckets[i].size(), path.bucket_size);
      for (const Candidate& each : plan.buckets[i]) {
        EXPECT_TRUE(placed.insert(each.block).second);
        EXPECT_GE(depth_on_path(each.leaf, path.leaf, path.height), i + path.top_levels);
      }
    }
    for (const Candidate& each : plan.left) EXPECT_TRUE(placed.insert(each.block).second);
    std::size_t all = path.top.size();
    for (const auto& bucket : path.residents) all += bucket.size();
    EXPECT_EQ(placed.size(), all);
  }
}

TEST(EvictionPlan, Lemma1AResidentStaysAtTheServer) {
  std::mt19937_64 random(2);
  for (int run = 0; run < 20000; ++run) {
    const EvictionPath path = random_path(random);
    for (const Candidate& each : plan_eviction(path).left)
      EXPECT_TRUE(std::ranges::find(path.top, each) != path.top.end()) << "run " << run;
  }
}

TEST(EvictionPlan, Lemma2TheNumberLeftDoesNotDependOnTheOrder) {
  std::mt19937_64 random(3);
  for (int run = 0; run < 20000; ++run) {
    const EvictionPath path = random_path(random);
    std::vector<Candidate> all = path.top;
    for (const auto& bucket : path.residents) all.insert(all.end(), bucket.begin(), bucket.end());
    std::shuffle(all.begin(), all.end(), random);
    std::map<unsigned, unsigned> full;
    std::size_t left = 0;
    for (const Candidate& each : all) {
      unsigned levels = depth_on_path(each.leaf, path.leaf, path.height) + 1;
      while (levels > path.top_levels && full[levels - 1] == path.bucket_size) --levels;
      if (levels > path.top_levels)
        ++full[levels - 1];
      else
        ++left;
    }
    EXPECT_EQ(plan_eviction(path).left.size(), left) << "run " << run;
  }
}

TEST(EvictionPlan, OfTheTopTheYoungestAreLeft) {
  EvictionPath path{
      .leaf = 0, .top_levels = 1, .height = 1, .bucket_size = 2, .residents = {{}}, .top = {}};
  for (BlockId block = 0; block < 5; ++block) path.top.push_back({block, 1, 0});
  const EvictionPlan plan = plan_eviction(path);
  ASSERT_EQ(plan.left.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(plan.left[i].block, 2 + i);
}

// ---- whole trees

enum class Pattern { round_robin, one_block, hot_tenth, uniform, up_and_down };

/// The blocks and buckets of a volume, without contents.
class Tree {
 public:
  static constexpr unsigned kBucketSize = 16, kEvery = 20;

  Tree(unsigned top_levels, unsigned height, double fill, Pattern pattern, unsigned lag,
       std::uint64_t seed)
      : top_levels_(top_levels),
        height_(height),
        lag_(lag),
        pattern_(pattern),
        random_(seed),
        blocks_(static_cast<std::size_t>(fill * static_cast<double>(capacity(height, kEvery)))),
        buckets_(std::size_t{2} << height),
        touches_(std::size_t{2} << height),
        tops_(std::size_t{1} << top_levels) {}

  void run(std::uint64_t turns) {
    for (std::uint64_t i = 0; i < turns; ++i) {
      access(turn_ < blocks_.size() ? turn_ : chosen());
      if (++turn_ % kEvery == 0) ++due_;
      if (due_ > lag_)
        while (due_ > 0) evict();
      most_in_top = std::max(most_in_top, in_top_);
    }
  }

  std::size_t displaced = 0, most_left = 0, most_in_top = 0;
  std::uint64_t oldest_left = 0;
  unsigned most_touches = 0;

 private:
  struct Block {
    Leaf leaf = 0;
    std::uint64_t turn = 0;
    int level = -1;  // -1 if it is nowhere; 0 is the top
  };
  BlockId chosen() {
    const std::uint64_t count = blocks_.size();
    switch (pattern_) {
      case Pattern::round_robin:
        return turn_ % count;
      case Pattern::one_block:
        return turn_ % 1024 == 0 ? random_() % count : 7 % count;
      case Pattern::hot_tenth:
        return random_() % 10 != 0 ? random_() % (count / 10 + 1) : random_() % count;
      case Pattern::uniform:
        return random_() % count;
      case Pattern::up_and_down: {
        const std::uint64_t at = turn_ % (2 * count);
        return at < count ? at : 2 * count - 1 - at;
      }
    }
    return 0;
  }
  Leaf group(Leaf leaf) const { return leaf & (tops_.size() - 1); }

  void access(BlockId number) {
    Block& block = blocks_[number];
    const Leaf path = block.level > 0 ? block.leaf : random_();
    for (unsigned level = top_levels_; level <= height_; ++level)
      most_touches = std::max(most_touches, ++touches_[bucket_on_path(path, level)]);
    if (block.level > 0)
      std::erase(buckets_[bucket_on_path(block.leaf, static_cast<unsigned>(block.level))], number);
    if (block.level == 0) {
      std::erase(tops_[group(block.leaf)], number);
      --in_top_;
    }
    block = {random_() >> 24, turn_, 0};
    tops_[group(block.leaf)].push_back(number);
    ++in_top_;
  }

  void evict() {
    --due_;
    EvictionPath path{.leaf = evictions_++,
                      .top_levels = top_levels_,
                      .height = height_,
                      .bucket_size = kBucketSize,
                      .residents = {},
                      .top = {}};
    const auto candidate = [&](BlockId block) { return Candidate{block, 1, blocks_[block].leaf}; };
    for (unsigned level = top_levels_; level <= height_; ++level) {
      auto& bucket = path.residents.emplace_back();
      for (const BlockId block : buckets_[bucket_on_path(path.leaf, level)])
        bucket.push_back(candidate(block));
    }
    auto& top = tops_[group(path.leaf)];
    for (const BlockId block : top) path.top.push_back(candidate(block));
    const EvictionPlan plan = plan_eviction(path);
    in_top_ -= top.size();
    top.clear();
    for (const Candidate& each : plan.left) {
      displaced += blocks_[each.block].level > 0;
      blocks_[each.block].level = 0;
      oldest_left = std::max(oldest_left, turn_ - blocks_[each.block].turn);
      top.push_back(each.block);
    }
    in_top_ += top.size();
    most_left = std::max(most_left, plan.left.size());
    for (unsigned i = 0; i < plan.buckets.size(); ++i) {
      const BucketIndex at = bucket_on_path(path.leaf, top_levels_ + i);
      touches_[at] = 0;
      buckets_[at].clear();
      for (const Candidate& each : plan.buckets[i]) {
        buckets_[at].push_back(each.block);
        blocks_[each.block].level = static_cast<int>(top_levels_ + i);
      }
    }
  }

  const unsigned top_levels_, height_, lag_;
  const Pattern pattern_;
  std::mt19937_64 random_;
  std::vector<Block> blocks_;
  std::vector<std::vector<BlockId>> buckets_;
  std::vector<unsigned> touches_;
  std::vector<std::vector<BlockId>> tops_;  // oldest first
  std::size_t in_top_ = 0;
  std::uint64_t turn_ = 0, evictions_ = 0;
  unsigned due_ = 0;
};

class Occupancy : public testing::TestWithParam<std::tuple<Pattern, double, unsigned>> {};
INSTANTIATE_TEST_SUITE_P(Patterns, Occupancy,
                         testing::Combine(testing::Values(Pattern::round_robin, Pattern::one_block,
                                                          Pattern::hot_tenth, Pattern::uniform,
                                                          Pattern::up_and_down),
                                          testing::Values(0.5, 1.0), testing::Values(0u, 2u, 8u)));

// The figures of docs/protocol-ring.md, for a top of three levels: 8 groups, with a lag of up to
// all of them.
TEST_P(Occupancy, StaysWithinItsBounds) {
  const auto [pattern, fill, lag] = GetParam();
  constexpr unsigned kTop = 3, kHeight = 8;
  Tree tree(kTop, kHeight, fill, pattern, lag, 11 * lag + 5);
  tree.run(static_cast<std::uint64_t>(Tree::kEvery) << (kHeight + 3));
  const double sweep = Tree::kEvery << kTop;  // turns until the same group is evicted again
  EXPECT_EQ(tree.displaced, 0u);
  EXPECT_LE(tree.most_left, 30u);
  EXPECT_LE(static_cast<double>(tree.oldest_left), 3 * sweep);
  const double lagging = static_cast<double>(lag) * Tree::kEvery;
  EXPECT_LE(static_cast<double>(tree.most_in_top), sweep / 2 + lagging + 11 * std::sqrt(sweep / 2));
  EXPECT_LE(tree.most_touches, 256u - Tree::kBucketSize);
}

}  // namespace
}  // namespace s3oram::ring
