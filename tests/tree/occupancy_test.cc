// How full the root's stash part gets: the shuffle planner alone, over positions in memory, for
// millions of accesses to a full volume and to one that grows. What is left over there must fall as
// fast as the bound (bounds.h) needs it; an overflow would be visible from outside.
//
//   S3O_ACCESSES=50000000 tests/occupancy_test     for as many accesses of each kind
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "oramcore/state/position_map.h"
#include "oramcore/tree/bounds.h"
#include "oramcore/tree/plan.h"

namespace s3oram {
namespace {

enum class Access { round_robin, uniform, one_block };
constexpr std::pair<Access, const char*> kAccesses[] = {{Access::round_robin, "round robin"},
                                                        {Access::uniform, "uniform"},
                                                        {Access::one_block, "one block"}};

struct Sizes {
  std::uint16_t bucket_size, evict_every;
};

std::uint64_t accesses_wanted(std::uint64_t usual) {
  const char* given = std::getenv("S3O_ACCESSES");
  return given ? std::strtoull(given, nullptr, 10) : usual;
}

/// How often so many blocks were left over.
using Histogram = std::vector<std::uint64_t>;

class Occupancy : public testing::TestWithParam<Sizes> {
 protected:
  Occupancy()
      : params_{.scheme = {1, 3},
                .block_size = 512,
                .bucket_size = GetParam().bucket_size,
                .evict_every = GetParam().evict_every,
                .evictor = Evictor::shuffle,
                .stash_slots = min_stash_slots(GetParam().bucket_size, GetParam().evict_every),
                .privacy = Privacy::computational} {}

  void reset(unsigned height) {
    positions_.reset(height);
    left_over_.assign(params_.stash_slots + 1u, 0);
    view_ = 0;
    turn_ = 0;
  }

  void access(BlockId block) {
    positions_.set(block, {.kind = Position::Kind::tree,
                           .leaf = random_() & ((Leaf{1} << kLeafBits) - 1),
                           .level = 0,
                           .slot = root_slot(turn_, params_.evict_every),
                           .version = turn_ + 1});
    ++turn_;
    if (turn_ % params_.evict_every == 0) evict();
  }

  /// As the engine does it, and at once: what is accessed before a later one would only be fewer.
  void evict() {
    const unsigned height = positions_.height();
    EvictionPath path{.eviction = view_, .height = height, .on_path = {}, .leaf_sibling = {}};
    std::size_t residents = 0;
    for (unsigned level = 0; level <= height; ++level) {
      path.on_path.push_back(positions_.contents(bucket_on_path(view_, level)));
      residents += path.on_path.back().size();
      if (level > 0) most_ = std::max(most_, path.on_path.back().size());
    }
    const EvictionPlan plan = plan_shuffle_eviction(params_, path);
    ASSERT_TRUE(plan.overflow.empty()) << "after " << turn_ << " accesses";
    ASSERT_EQ(plan.placements.size(), residents);
    std::size_t left = 0;
    for (const Placement& placement : plan.placements) {
      Position position = positions_.get(placement.block);
      ASSERT_EQ(position.version, placement.version);
      position.level = placement.level;
      position.slot = placement.slot;
      positions_.set(placement.block, position);
      left += placement.level == 0;
    }
    ++view_;
    ++left_over_[left];
  }

  std::uint64_t at_least(std::size_t k) const {
    std::uint64_t times = 0;
    for (; k < left_over_.size(); ++k) times += left_over_[k];
    return times;
  }

  /// What must hold of at least k blocks left over, in bits: exponentially less from where the
  /// root's own bucket is full, and 2^-80 where the stash part would overflow.
  double bits_needed(std::size_t k) const {
    const double z = params_.bucket_size, end = params_.stash_slots + 1.0;
    return kBitsAtFull + (kOverflowBits - kBitsAtFull) * (static_cast<double>(k) - z) / (end - z);
  }

  void judge(const char* what) {
    const std::size_t z = params_.bucket_size;
    std::printf("Z=%zu A=%u %-12s height %u, %llu accesses, %llu evictions, fullest bucket %zu\n",
                z, params_.evict_every, what, positions_.height(),
                static_cast<unsigned long long>(turn_), static_cast<unsigned long long>(view_),
                most_);
    EXPECT_LE(most_, z);
    const auto evictions = static_cast<double>(view_);
    for (std::size_t k = 1; k < left_over_.size() && at_least(k) > 0; ++k) {
      const double measured = static_cast<double>(at_least(k)) / evictions;
      if (k >= z || k % 4 == 0) std::printf("  >= %2zu: %.1e\n", k, measured);
      if (k <= z) continue;
      const double bound = std::exp2(-bits_needed(k));
      // Three deviations more by chance; one of them may come at any time.
      const double likely = bound * evictions;
      EXPECT_LE(static_cast<double>(at_least(k)), likely + 3 * std::sqrt(likely) + 1)
          << k << " blocks left over";
    }
  }

  static constexpr double kBitsAtFull = 7;
  const VolumeParams params_;
  std::mt19937_64 random_{20};
  PositionMap positions_;
  Histogram left_over_;
  std::uint64_t view_ = 0;
  Turn turn_ = 0;
  std::size_t most_ = 0;
};

TEST_P(Occupancy, OfAFullVolumeFallsAsFastAsTheBoundNeeds) {
  constexpr unsigned kHeight = 8;
  const BlockId blocks = capacity(kHeight, params_.evict_every);
  for (const auto& [kind, name] : kAccesses) {
    reset(kHeight);
    for (BlockId block = 0; block < blocks; ++block) ASSERT_NO_FATAL_FAILURE(access(block));
    for (const std::uint64_t wanted = accesses_wanted(2'000'000); turn_ < wanted;) {
      const BlockId block = kind == Access::one_block     ? 7
                            : kind == Access::round_robin ? turn_ % blocks
                                                          : random_() % blocks;
      ASSERT_NO_FATAL_FAILURE(access(block));
    }
    judge(name);
  }
}

// A volume that grows is always nearly full.
TEST_P(Occupancy, OfAGrowingVolumeFallsAsFast) {
  const std::uint64_t wanted = accesses_wanted(2'000'000);
  constexpr unsigned kHighest = 13;
  unsigned highest = 1;
  reset(1);
  for (BlockId blocks = 0; turn_ < wanted;) {
    const bool more = random_() % 4 == 0;
    ASSERT_NO_FATAL_FAILURE(access(more ? blocks : random_() % (blocks + 1)));
    blocks = std::max<BlockId>(blocks, positions_.mapped());
    // At an eviction, as the engine does.
    if (turn_ % params_.evict_every == 0 && positions_.mapped() + params_.ring_slots() >
                                                capacity(positions_.height(), params_.evict_every))
      positions_.grow();
    highest = std::max(highest, positions_.height());
    if (positions_.height() < kHighest) continue;
    positions_.reset(1);  // and once more from the beginning
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

}  // namespace
}  // namespace s3oram
