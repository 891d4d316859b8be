// Plans an eviction: chooses the slot in the path's buckets to which each block goes. A pure
// function of positions. The client knows every position, so it makes the complete plan before it
// sends anything.
//
// Residents, the blocks that lie in the path's buckets, are placed first, by decreasing depth; then
// the blocks of the client's top, oldest first. Each goes to the deepest level with room that is
// not below its own depth. Then:
//   - a resident always finds room below the top (Lemma 1: if one found none, the levels k to its
//     depth, all full, would hold nothing but residents that are at least as deep and came from
//     those levels, and there were not that many), and
//   - how many blocks stay in the top does not depend on the order (Lemma 2: parking functions), so
//     the occupancy is Ring ORAM's, in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "oramcore/oram/block_device.h"
#include "oramcore/oram/geometry.h"

namespace s3oram::ring {

/// A block that an eviction may place.
struct Candidate {
  BlockId block = 0;
  std::uint64_t version = 0;
  Leaf leaf = 0;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// The eviction path, from level k to level H.
struct EvictionPath {
  Leaf leaf = 0;
  unsigned top_levels = 1;  // k
  unsigned height = 1;      // H >= k
  unsigned bucket_size = 1;
  std::vector<std::vector<Candidate>> residents;  // by level from k on
  std::vector<Candidate> top;                     // blocks with leaves below the path's bucket at
                                                  // level k, oldest first
};

struct EvictionPlan {
  /// The new buckets, by level from k on: block i lies in slot i.
  std::vector<std::vector<Candidate>> buckets;
  std::vector<Candidate> left;  // blocks that stay in the top
};

/// Returns how deep on the path to `path` a block with this leaf may lie.
unsigned depth_on_path(Leaf leaf, Leaf path, unsigned height);

EvictionPlan plan_eviction(const EvictionPath& path);

}  // namespace s3oram::ring
