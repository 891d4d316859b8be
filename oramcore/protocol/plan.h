// Plans an eviction: chooses, for each real block, its slot in the buckets that the eviction
// writes. A pure function of positions (Subroutine 3, client side). The client knows every
// position, so it makes the whole plan before it sends anything; a plan that has no room for all
// blocks is not sent.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/layout.h"
#include "oramcore/protocol/permutation.h"

namespace s3oram {

/// A real block in a bucket.
struct Resident {
  std::uint64_t block;
  std::uint16_t slot;
  Leaf leaf;
  std::uint64_t version = 0;
};
using BucketContents = std::vector<Resident>;

/// The buckets of an eviction path before the eviction; of the root, only the slots that it covers.
struct EvictionPath {
  std::uint64_t eviction = 0;           // e; the path is the one to leaf e
  unsigned height = 0;                  // H >= 1
  std::vector<BucketContents> on_path;  // levels 0..H
  BucketContents leaf_sibling;          // sibling of the leaf bucket on the path (matrix)
};

/// One matrix product: I_h of Subroutine 3. Entry `from` of the source and target buckets together
/// (0..Z-1 source, Z..2Z-1 target) moves to slot `to` of the target; all other slots of the target
/// become zero. The root's source consists of the evicted root writes, in the order of their write
/// numbers.
struct MatrixStep {
  struct Move {
    std::uint16_t from;
    std::uint16_t to;
  };
  std::vector<Move> moves;
};

/// The place of a block of this version after the eviction: slot `slot` of the bucket at `level` on
/// its own path.
struct Placement {
  std::uint64_t block;
  std::uint64_t version;
  std::uint8_t level;
  std::uint16_t slot;
};

struct EvictionPlan {
  /// Matrix: H + 1 steps: path level 0 into 1, ..., H-1 into H, then H-1 into the leaf's sibling.
  /// Shuffle and selection: where each slot of PathSlots::evicted() goes, whether it holds a block
  /// or not.
  std::variant<std::vector<MatrixStep>, Permutation> movement;
  /// Every block that the eviction covers.
  std::vector<Placement> placements;
  /// The blocks for which no slot was left. If there are any, the plan must not be carried out:
  /// move these blocks off the path (to the client's stash) and plan again.
  std::vector<std::uint64_t> overflow;
};

/// Triplet eviction: at each level, the source bucket is pushed into the bucket below it on the
/// path (by a matrix), and copied whole into that bucket's sibling, which earlier evictions left
/// empty; at the leaf level both are done by matrices. A block that finds no free slot in its
/// bucket goes to `overflow`.
EvictionPlan plan_triplet_eviction(const VolumeParams& params, const EvictionPath& path);

/// Shuffle eviction: each block goes as deep on the eviction path as its leaf and the free slots
/// allow; the remaining blocks go to the root's stash part. Slots that hold no block fill the other
/// places, including those of the evicted writes.
EvictionPlan plan_shuffle_eviction(const VolumeParams& params, const EvictionPath& path);

inline EvictionPlan plan_eviction(const VolumeParams& params, const EvictionPath& path) {
  return params.evictor == Evictor::matrix ? plan_triplet_eviction(params, path)
                                           : plan_shuffle_eviction(params, path);
}

}  // namespace s3oram
