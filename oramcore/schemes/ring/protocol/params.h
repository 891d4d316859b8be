// What follows from the numbers of a ring volume (docs/parameters.md).
//
// Levels 0 to k - 1 of the tree, its top, lie at the client; levels k to H at the server. The
// server also keeps a log of the newest writes, in R slots that are used in turn.
#pragma once

#include <algorithm>
#include <cstdint>

#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/params.h"

namespace s3oram::ring {

/// Numbers the accesses of a volume: each writes one slot of the log.
using Turn = std::uint64_t;

/// Every turn of this number's multiples logs the oldest block of the top again.
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
  const std::uint32_t row_size;   // of a row at the server: as long as a slot, and a tag
  const std::uint32_t log_slots;  // R

  /// Points of a bucket version that hold no slot.
  unsigned dummies() const { return 256u - bucket_size; }
  /// Subtrees below the top: as many consecutive evictions touch no bucket in common.
  std::uint32_t groups() const { return 1u << top_levels; }
  std::uint32_t slot_of(Turn turn) const { return static_cast<std::uint32_t>(turn % log_slots); }
  /// How many turns before its slot of the log is reused a block of the top is logged again: more
  /// than can be under way at a time, so that enough turns are left for it after a crash.
  std::uint32_t log_again_within() const {
    return std::max(log_slots / 4, (most_evictions_due() + 2) * evict_every);
  }
  /// An eviction reads so many slots of the top's cache, whatever lies there (or twice as many, and
  /// so on): at least as many as the top's blocks below its group, but with a probability of 2^-30.
  unsigned cache_reads() const;
  /// How many evictions accesses may be ahead of those that are done.
  std::uint32_t most_evictions_due() const { return std::max(2u, groups() / 4); }
  /// The first turn that must wait while so many evictions are done: a function of public counters.
  Turn end_turn(std::uint64_t evictions_done) const {
    return (evictions_done + most_evictions_due() + 1) * evict_every;
  }
  /// The evictions that are due once all turns before `written` are acknowledged.
  std::uint64_t evictions_until(Turn written) const { return written / evict_every; }
  /// How often a bucket version may be touched before it is rewritten: each touch must have a dummy
  /// of its own.
  unsigned most_touches() const { return dummies() - 1; }
};

/// Slots that top.cache needs at most, but with a probability of 2^-80 for each turn: A·2^k·(1/2 +
/// lag/2^k) blocks in the mean, eleven standard deviations, and those that a commit has not yet
/// freed. No limit on accesses depends on how many are in use.
std::uint64_t cache_slots(const VolumeParams& params);
/// Bytes of top.cache.
std::uint64_t cache_bytes(const VolumeParams& params);
/// The largest k for which top.cache takes at most so many bytes; 0 if k = 1 takes more.
unsigned top_levels_for(const VolumeParams& params, std::uint64_t cache_bytes);

/// The least height, at least k, of a tree that holds so many blocks.
unsigned height_for(const VolumeParams& params, std::uint64_t blocks);

/// What an access costs in blocks, evictions amortised, with a full tree of this height.
struct AccessCost {
  double up = 0, down = 0;
  double read_down = 0;  // of a read alone
};
AccessCost access_cost(const VolumeParams& params, unsigned height);

}  // namespace s3oram::ring
