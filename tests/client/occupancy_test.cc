// Tests how full buckets become. Runs only the planners, over positions in memory, for millions of
// accesses to a full volume and to one that grows. The number of blocks that the shuffle planner
// leaves over in the root's stash part, and that triplet evictions push into a bucket, must fall as
// fast as the bounds (bounds.h) require; an overflow would be visible from outside.
//
//   S3O_REPEAT=25 tests/occupancy_test     for 25 times as many accesses of each kind
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

#include "oramcore/client/position_map.h"
#include "oramcore/protocol/bounds.h"
#include "oramcore/protocol/plan.h"
#include "tests/harness/repetitions.h"

namespace s3oram {
namespace {

enum class Access { round_robin, uniform, one_block };
constexpr std::pair<Access, const char*> kAccesses[] = {{Access::round_robin, "round robin"},
                                                        {Access::uniform, "uniform"},
                                                        {Access::one_block, "one block"}};

struct Sizes {
  std::uint16_t bucket_size, evict_every;
};

std::uint64_t accesses_wanted() { return test::repetitions(800'000); }

/// Counts how often each number of blocks was left over.
using Histogram = std::vector<std::uint64_t>;

/// A volume's accesses and evictions, as the engine does them but without delay. (If an access came
/// before a later eviction, there would only be fewer blocks.)
class Planning : public testing::TestWithParam<Sizes> {
 protected:
  explicit Planning(const VolumeParams& params) : params_(params) {}

  virtual void forget_counts() = 0;
  virtual void count(const EvictionPath& path, const EvictionPlan& plan) = 0;

  void reset(unsigned height) {
    positions_.reset(height);
    forget_counts();
    tree_version_ = 0;
    write_number_ = 0;
  }

  void access(BlockId block) {
    positions_.set(block, {.kind = Position::Kind::tree,
                           .leaf = random_() & ((Leaf{1} << kLeafBits) - 1),
                           .level = 0,
                           .slot = root_slot(write_number_, params_.evict_every),
                           .version = write_number_ + 1});
    ++write_number_;
    if (write_number_ % params_.evict_every == 0) evict();
  }

  void access_all(BlockId blocks) {
    for (BlockId block = 0; block < blocks; ++block) ASSERT_NO_FATAL_FAILURE(access(block));
  }
  /// Accesses blocks until there have been `wanted` root writes.
  void go_on(Access kind, BlockId blocks, std::uint64_t wanted) {
    while (write_number_ < wanted) {
      const BlockId block = kind == Access::one_block     ? 7
                            : kind == Access::round_robin ? write_number_ % blocks
                                                          : random_() % blocks;
      ASSERT_NO_FATAL_FAILURE(access(block));
    }
  }

  const VolumeParams params_;
  std::mt19937_64 random_{20};
  PositionMap positions_;
  std::uint64_t tree_version_ = 0;
  WriteNumber write_number_ = 0;

 private:
  void evict() {
    const unsigned height = positions_.height();
    EvictionPath path{
        .eviction = tree_version_, .height = height, .on_path = {}, .leaf_sibling = {}};
    for (unsigned level = 0; level <= height; ++level)
      path.on_path.push_back(positions_.contents(bucket_on_path(tree_version_, level)));
    std::size_t residents = 0;
    for (const BucketContents& bucket : path.on_path) residents += bucket.size();
    if (params_.evictor == Evictor::matrix) {
      path.leaf_sibling = positions_.contents(sibling_of(bucket_on_path(tree_version_, height)));
      residents += path.leaf_sibling.size();
    }
    const EvictionPlan plan = plan_eviction(params_, path);
    ASSERT_TRUE(plan.overflow.empty()) << "after " << write_number_ << " accesses";
    ASSERT_EQ(plan.placements.size(), residents);
    for (const Placement& placement : plan.placements) {
      Position position = positions_.get(placement.block);
      ASSERT_EQ(position.version, placement.version);
      position.level = placement.level;
      position.slot = placement.slot;
      positions_.set(placement.block, position);
    }
    count(path, plan);
    ++tree_version_;
  }
};

class Occupancy : public Planning {
 protected:
  Occupancy()
      : Planning({.scheme = {1, 3},
                  .block_size = 512,
                  .bucket_size = GetParam().bucket_size,
                  .evict_every = GetParam().evict_every,
                  .evictor = Evictor::shuffle,
                  .stash_slots = min_stash_slots(GetParam().bucket_size, GetParam().evict_every),
                  .privacy = Privacy::computational}) {}

  void forget_counts() override { left_over_.assign(params_.stash_slots + 1u, 0); }
  void count(const EvictionPath& path, const EvictionPlan& plan) override {
    for (std::size_t level = 1; level < path.on_path.size(); ++level)
      most_ = std::max(most_, path.on_path[level].size());
    ++left_over_[static_cast<std::size_t>(
        std::ranges::count(plan.placements, 0, &Placement::level))];
  }

  std::uint64_t at_least(std::size_t k) const {
    std::uint64_t times = 0;
    for (; k < left_over_.size(); ++k) times += left_over_[k];
    return times;
  }

  /// The bound, in bits, on the probability that at least k blocks are left over: it falls
  /// exponentially from where the root's own bucket is full to 2^-80 where the stash part would
  /// overflow.
  double bits_needed(std::size_t k) const {
    const double z = params_.bucket_size, end = params_.stash_slots + 1.0;
    return kBitsAtFull + (kOverflowBits - kBitsAtFull) * (static_cast<double>(k) - z) / (end - z);
  }

  void judge(const char* what) {
    const std::size_t z = params_.bucket_size;
    std::printf("Z=%zu A=%u %-12s height %u, %llu accesses, %llu evictions, fullest bucket %zu\n",
                z, params_.evict_every, what, positions_.height(),
                static_cast<unsigned long long>(write_number_),
                static_cast<unsigned long long>(tree_version_), most_);
    EXPECT_LE(most_, z);
    const auto evictions = static_cast<double>(tree_version_);
    for (std::size_t k = 1; k < left_over_.size() && at_least(k) > 0; ++k) {
      const double measured = static_cast<double>(at_least(k)) / evictions;
      if (k >= z || k % 4 == 0) std::printf("  >= %2zu: %.1e\n", k, measured);
      if (k <= z) continue;
      const double bound = std::exp2(-bits_needed(k));
      // Allows three more standard deviations by chance; a single such event may come at any time.
      const double likely = bound * evictions;
      EXPECT_LE(static_cast<double>(at_least(k)), likely + 3 * std::sqrt(likely) + 1)
          << k << " blocks left over";
    }
  }

  static constexpr double kBitsAtFull = 7;
  Histogram left_over_;
  std::size_t most_ = 0;
};

TEST_P(Occupancy, OfAFullVolumeFallsAsFastAsTheBoundNeeds) {
  constexpr unsigned kHeight = 8;
  const BlockId blocks = capacity(kHeight, params_.evict_every);
  for (const auto& [kind, name] : kAccesses) {
    reset(kHeight);
    ASSERT_NO_FATAL_FAILURE(access_all(blocks));
    ASSERT_NO_FATAL_FAILURE(go_on(kind, blocks, accesses_wanted()));
    judge(name);
  }
}

// A volume that grows is always nearly full.
TEST_P(Occupancy, OfAGrowingVolumeFallsAsFast) {
  const std::uint64_t wanted = accesses_wanted();
  constexpr unsigned kHighest = 13;
  unsigned highest = 1;
  reset(1);
  for (BlockId blocks = 0; write_number_ < wanted;) {
    const bool more = random_() % 4 == 0;
    ASSERT_NO_FATAL_FAILURE(access(more ? blocks : random_() % (blocks + 1)));
    blocks = std::max<BlockId>(blocks, positions_.mapped());
    // The tree grows at an eviction, as in the engine.
    if (write_number_ % params_.evict_every == 0 &&
        positions_.mapped() + params_.root_buffer_slots() >
            capacity(positions_.height(), params_.evict_every))
      positions_.grow();
    highest = std::max(highest, positions_.height());
    if (positions_.height() < kHighest) continue;
    positions_.reset(1);  // and again from the beginning
    blocks = 0;
  }
  EXPECT_GT(highest, 8u);
  judge("growing");
}

INSTANTIATE_TEST_SUITE_P(Sizes, Occupancy,
                         testing::Values(Sizes{16, 20}, Sizes{32, 46}, Sizes{8, 8}),
                         [](const auto& test) {
                           return fmt::format("Z{}A{}", test.param.bucket_size,
                                              test.param.evict_every);
                         });

/// The triplet evictions of the matrix evictor.
class TripletOccupancy : public Planning {
 protected:
  TripletOccupancy()
      : Planning({.scheme = {1, 3},
                  .block_size = 512,
                  .bucket_size = GetParam().bucket_size,
                  .evict_every = GetParam().evict_every}) {}

  void forget_counts() override { loads_.assign(kHeight + 1, Histogram(params_.bucket_size + 1u)); }
  /// Computes the effect of each push on the bucket of the path, which is pushed next, and on the
  /// leaf beside it.
  void count(const EvictionPath& path, const EvictionPlan&) override {
    std::vector<std::size_t> on_path(kHeight + 1);
    std::size_t aside = path.leaf_sibling.size();
    for (unsigned level = 0; level <= kHeight; ++level)
      for (const Resident& resident : path.on_path[level]) {
        const auto shared = static_cast<unsigned>(std::countr_zero(resident.leaf ^ path.eviction));
        for (unsigned each = level; each <= std::min(shared, kHeight); ++each) ++on_path[each];
        aside += shared == kHeight - 1;
      }
    for (unsigned level = 1; level <= kHeight; ++level) ++loads_[level].at(on_path[level]);
    ++loads_[kHeight].at(aside);
  }

  /// Each push moves at most Poisson(A) blocks.
  void judge(const char* what) const {
    std::printf("A=%u Z=%u %-12s %llu accesses, %llu evictions\n", params_.evict_every,
                params_.bucket_size, what, static_cast<unsigned long long>(write_number_),
                static_cast<unsigned long long>(tree_version_));
    for (unsigned level = 1; level <= kHeight; ++level) {
      const Histogram& loads = loads_[level];
      const auto pushes = static_cast<double>(std::accumulate(loads.begin(), loads.end(), 0ULL));
      const double mean = params_.evict_every;
      double beyond = 1, term = std::exp(-mean);  // P[Poisson(A) >= k], P[Poisson(A) = k]
      std::uint64_t at_least = static_cast<std::uint64_t>(pushes);
      for (std::size_t k = 0; k < loads.size() && at_least > 0; ++k) {
        if (k % 8 == 0 && static_cast<double>(k) > mean)
          std::printf("  level %u, >= %2zu: %.1e of %.1e\n", level, k,
                      static_cast<double>(at_least) / pushes, beyond);
        const double likely = beyond * pushes;
        if (static_cast<double>(k) > mean) {
          EXPECT_LE(static_cast<double>(at_least), likely + 4 * std::sqrt(likely) + 1)
              << k << " blocks in a bucket of level " << level;
        }
        at_least -= loads[k];
        beyond -= term;
        term *= mean / static_cast<double>(k + 1);
      }
    }
  }

  static constexpr unsigned kHeight = 8;
  std::vector<Histogram> loads_;  // by level
};

TEST_P(TripletOccupancy, OfAFullVolumeFallsAsFastAsTheBound) {
  const BlockId blocks = capacity(kHeight, params_.evict_every);
  for (const auto& [kind, name] : kAccesses) {
    reset(kHeight);
    ASSERT_NO_FATAL_FAILURE(access_all(blocks));
    ASSERT_NO_FATAL_FAILURE(go_on(kind, blocks, accesses_wanted()));
    judge(name);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, TripletOccupancy,
                         testing::Values(Sizes{min_bucket_size(20), 20},
                                         Sizes{min_bucket_size(64), 64}),
                         [](const auto& test) {
                           return fmt::format("A{}", test.param.evict_every);
                         });

}  // namespace
}  // namespace s3oram
