// Numbers that follow from those of a ring volume (docs/parameters.md).
//
// Levels 0 to k - 1 of the tree, its top, are kept by the client; levels k to H by the server. The
// server also keeps a log of the newest writes, in R slots that are used in rotation.
#pragma once

#include <algorithm>
#include <cstdint>

#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/params.h"

namespace s3oram::ring {

/// The number of an access: each access of a volume writes one slot of the log.
using Turn = std::uint64_t;

/// Every turn before a multiple of this number logs the oldest block of the top again.
inline constexpr Turn kMaintenanceEvery = 256;

struct Params {
  explicit Params(const VolumeParams& volume)
      : block_size(volume.block_size),
        bucket_size(volume.bucket_size),
        evict_every(volume.evict_every),
        top_levels(volume.top_levels),
        first_height(volume.first_height),
        slot_size(volume.slot_size()),
        row_size(volume.stored_slot()),
        log_slots(volume.log_slots()) {}

  const std::uint32_t block_size;
  const unsigned bucket_size;     // Z, rows of a bucket
  const unsigned evict_every;     // A, accesses between two evictions
  const unsigned top_levels;      // k
  const unsigned first_height;    // H of the new tree, at least k
  const std::uint32_t slot_size;  // bytes of a sealed block
  const std::uint32_t row_size;   // bytes of a row at the server: a slot and its tag
  const std::uint32_t log_slots;  // R

  /// Returns the number of points of a bucket version that hold no slot.
  unsigned dummies() const { return 256u - bucket_size; }
  /// Returns the number of subtrees below the top: this many consecutive evictions touch no bucket
  /// in common.
  std::uint32_t groups() const { return 1u << top_levels; }
  /// Returns the subtree that the path to this leaf belongs to.
  Leaf group_of(Leaf leaf) const { return leaf & (groups() - 1); }
  std::uint32_t slot_of(Turn turn) const { return static_cast<std::uint32_t>(turn % log_slots); }
  /// Returns how many turns before its slot of the log is reused a block of the top is logged
  /// again. This is more than can be under way at a time, so that enough turns are left for it
  /// after a crash.
  std::uint32_t log_again_within() const {
    return std::max(log_slots / 4, (most_evictions_due() + 2) * evict_every);
  }
  /// Returns how many slots of the top's cache an eviction reads, whatever they hold (or twice as
  /// many, and so on). This is at least the number of the top's blocks below the eviction's group,
  /// except with a probability of 2^-30.
  unsigned cache_reads() const;
  /// Returns by how many evictions accesses may be ahead of those that are done.
  std::uint32_t most_evictions_due() const { return std::max(2u, groups() / 4); }
  /// Returns the first turn that must wait while this many evictions are done: a function of public
  /// counters.
  Turn end_turn(std::uint64_t evictions_done) const {
    return (evictions_done + most_evictions_due() + 1) * evict_every;
  }
  /// Returns the number of evictions that are due once all turns before `written` are acknowledged.
  std::uint64_t evictions_until(Turn written) const { return written / evict_every; }
  /// Returns how often a bucket version may be touched before it is rewritten, because each touch
  /// needs a dummy of its own.
  unsigned most_touches() const { return dummies() - 1; }
};

/// Returns how many slots top.cache needs at most, except with a probability of 2^-80 for each
/// turn: A·2^k·(1/2 + lag/2^k) blocks on average, eleven standard deviations, and the slots that a
/// commit has not freed yet. Accesses are not limited by how many are in use.
std::uint64_t cache_slots(const VolumeParams& params);
/// Returns the bytes of top.cache.
std::uint64_t cache_bytes(const VolumeParams& params);
/// Returns the largest k for which top.cache takes at most this many bytes; 0 if k = 1 takes more.
unsigned top_levels_for(const VolumeParams& params, std::uint64_t cache_bytes);

/// Returns the lowest height, at least k, of a tree that holds this many blocks.
unsigned height_for(const VolumeParams& params, std::uint64_t blocks);

/// The cost of an access in blocks, including its share of evictions, in a full tree of some
/// height.
struct AccessCost {
  double up = 0, down = 0;
  double read_down = 0;  // what a read downloads, without evictions
};
AccessCost access_cost(const VolumeParams& params, unsigned height);

}  // namespace s3oram::ring
