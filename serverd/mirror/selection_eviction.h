// The evictor of a mirror: every row of the new path is a private selection from the rows of the
// old one, computed by the workers together (docs/protocol-mirror.md). With its share R of the
// matrix, the worker of role r makes
//
//   a_r = R sh(old rows) + its masks
//
// where sh() shifts a row's header by one entry. The new rows are the sum of all a_r, with the
// attempt and the place as entry 0:
//
//   step 0   two workers send each other theirs; more workers send theirs to the tile's aggregator
//   step 1   the aggregator sends the sum to the other workers, if there are more than two
//   step 2   the aggregator sends the new rows to the takers that are not workers
//
// Each tile has a different worker as its aggregator, so all lines carry the same amount.
#pragma once

#include "oramcore/schemes/mirror/protocol/layers.h"
#include "serverd/oram/eviction.h"

namespace s3oram {

/// Its results: the root's stash buckets, then the path's buckets from level 1 on. The evicted
/// writes have no place in the new path.
class SelectionEviction final : public Eviction {
 public:
  /// Errors: bad_request.
  static Result<std::shared_ptr<Eviction>> make(EvictionInput input, const EvictionHost& host);
  SelectionEviction(EvictionInput input, const EvictionHost& host, PartialSelectionOrders orders);
  bool reads_path() const override { return role_ != 0; }

 private:
  Task<Status> evict_tile(std::uint32_t tile) override;
  bool needs(Party peer) const override;
  // A tile is computed in one piece and exchanged once, so one tile alone would leave the processor
  // idle half of the time.
  std::size_t tiles_beside_accesses() const override { return 2; }
  Task<Status> work(std::uint32_t tile);
  Task<Status> follow(std::uint32_t tile);
  /// Replaces `rows` with the sum of all workers' rows.
  Task<Status> exchange(std::uint32_t tile, Bytes& rows);
  Task<Status> add_from(Party from, std::size_t step, std::uint32_t tile, Bytes& rows);

  /// Returns a_r, in rows of the tile's width. Runs on a pool's thread.
  Bytes multiply(std::uint32_t tile) const;
  void store(std::uint32_t tile, ByteSpan rows);
  /// Keeps the old headers. They shift across columns, and a tile's results overwrite what its
  /// neighbour still has to read.
  void keep_headers();
  const std::uint8_t* row(std::size_t slot) const;
  /// Puts the tile's columns of sh(row) into `to`, where they reach into the header.
  void shift(std::size_t slot, std::size_t begin, MutableByteSpan to) const;
  /// Returns the role that adds up this tile, and sends the new rows to the takers that are
  /// not workers.
  unsigned aggregator(std::uint32_t tile) const {
    return 1 + tile % static_cast<unsigned>(orders_.workers.size());
  }

  const PartialSelectionOrders orders_;  // views into the request
  const mirror::LayerAttempt attempt_;
  const std::size_t slots_, kept_;
  unsigned role_ = 0;  // its number, counted from 1; 0 if it has none
  Bytes matrix_;
  Bytes headers_;
  Bytes zeros_;
};

}  // namespace s3oram
