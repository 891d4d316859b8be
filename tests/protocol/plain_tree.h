// A tree of plain block numbers that carries out plans literally, as the servers do: matrices move
// slots, siblings become copies, and dead copies stay where they are.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "oramcore/protocol/plan.h"

namespace s3oram::test {

inline Leaf leaf_from(std::mt19937_64& random) { return random() & ((Leaf{1} << kLeafBits) - 1); }

class PlainTree {
 public:
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};

  PlainTree(const VolumeParams& params, unsigned height)
      : params_(params),
        height_(height),
        root_(params.root_slots(), kNothing),
        buckets_(bucket_count(height) + 1, Slots(params.bucket_size, kNothing)) {}

  struct Position {
    unsigned level;
    std::uint16_t slot;
    Leaf leaf;
    std::uint64_t version;
  };

  /// Makes the next root write. kNothing writes an empty slot.
  void write(std::uint64_t block, Leaf leaf) {
    const std::uint16_t slot = root_slot(written_, params_.evict_every);
    root_[slot] = block;
    ++written_;
    if (block != kNothing) positions_[block] = {0, slot, leaf, written_};
  }
  void remove(std::uint64_t block) { positions_.erase(block); }
  const std::map<std::uint64_t, Position>& positions() const { return positions_; }
  std::uint64_t tree_version() const { return tree_version_; }
  WriteNumber written() const { return written_; }
  PathSlots evicted() const { return PathSlots::evicted(params_, tree_version_, height_); }

  EvictionPath path() const {
    EvictionPath path{tree_version_, height_, {}, {}};
    path.on_path.resize(height_ + 1);
    const BucketIndex aside = sibling_of(bucket_on_path(tree_version_, height_));
    for (const auto& [block, at] : positions_) {
      const BucketIndex bucket = bucket_on_path(at.leaf, at.level);
      const Resident resident{block, at.slot, at.leaf, at.version};
      const bool covered = at.level > 0 || evicted().covers_root(at.slot);
      if (bucket_on_path(tree_version_, at.level) == bucket && covered)
        path.on_path[at.level].push_back(resident);
      if (bucket == aside) path.leaf_sibling.push_back(resident);
    }
    return path;
  }

  /// Carries out the eviction of the current tree version, which must not overflow.
  void carry_out(const EvictionPlan& plan) {
    if (const auto* to = std::get_if<Permutation>(&plan.movement))
      permute(*to);
    else
      multiply(std::get<std::vector<MatrixStep>>(plan.movement));
    for (const Placement& placement : plan.placements) {
      const auto found = positions_.find(placement.block);
      if (found == positions_.end() || found->second.version != placement.version) continue;
      found->second.level = placement.level;
      found->second.slot = placement.slot;
    }
    ++tree_version_;
  }

  /// Checks that every block lies where its position says, on the path to its leaf.
  void check() const {
    for (const auto& [block, at] : positions_) ASSERT_EQ(slots_at(at)[at.slot], block);
  }
  /// Returns how many blocks the bucket at `level` of the path to `leaf` holds.
  std::size_t load(Leaf leaf, unsigned level) const {
    std::size_t count = 0;
    for (const auto& [block, at] : positions_)
      count += at.level == level && bucket_on_path(at.leaf, level) == bucket_on_path(leaf, level);
    return count;
  }

 private:
  using Slots = std::vector<std::uint64_t>;

  const Slots& slots_at(const Position& at) const {
    return at.level == 0 ? root_ : buckets_[bucket_on_path(at.leaf, at.level)];
  }

  /// Moves slots. A slot that nobody reads again keeps its content.
  void permute(const Permutation& to) {
    const PathSlots slots = evicted();
    std::vector<std::uint64_t*> place(slots.count());
    for (std::size_t i = 0; i < slots.writes(); ++i) place[i] = &root_[slots.root_buffer_slot(i)];
    for (std::uint16_t i = 0; i < params_.stash_slots; ++i) {
      const auto slot = static_cast<std::uint16_t>(params_.root_buffer_slots() + i);
      place[slots.index(0, slot)] = &root_[slot];
    }
    for (unsigned level = 1; level <= height_; ++level)
      for (std::uint16_t slot = 0; slot < params_.bucket_size; ++slot)
        place[slots.index(level, slot)] = &buckets_[bucket_on_path(tree_version_, level)][slot];
    Slots before;
    for (const std::uint64_t* slot : place) before.push_back(*slot);
    for (std::size_t i = 0; i < to.size(); ++i)
      if (to[i] >= slots.writes()) *place[to[i]] = before[i];
  }

  void multiply(const std::vector<MatrixStep>& steps) {
    const std::uint16_t z = params_.bucket_size;
    const auto apply = [&](const MatrixStep& step, const Slots& source, const Slots& target) {
      Slots after(z, kNothing);
      for (const auto& move : step.moves)
        after[move.to] = move.from < z ? source[move.from] : target[move.from - z];
      return after;
    };
    Slots source;
    for (std::size_t i = 0; i < evicted().writes(); ++i)
      source.push_back(root_[evicted().root_buffer_slot(i)]);
    source.resize(z, kNothing);
    for (unsigned level = 1; level <= height_; ++level) {
      const BucketIndex target = bucket_on_path(tree_version_, level);
      Slots down = apply(steps[level - 1], source, buckets_[target]);
      Slots& aside = buckets_[sibling_of(target)];
      aside = level < height_ ? source : apply(steps[level], source, aside);
      buckets_[target].assign(z, kNothing);
      source = std::move(down);
    }
    buckets_[bucket_on_path(tree_version_, height_)] = source;
  }

  VolumeParams params_;
  unsigned height_;
  std::uint64_t tree_version_ = 0;
  WriteNumber written_ = 0;
  Slots root_;
  std::vector<Slots> buckets_;
  std::map<std::uint64_t, Position> positions_;
};

}  // namespace s3oram::test
