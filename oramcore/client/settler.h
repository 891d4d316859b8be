// Compares servers' shares by digests, and settles slots whose shares do not fit together. A share
// can be wrong although its checksum is right, if a server lies or its memory errs.
#pragma once

#include "oramcore/client/slot_shares.h"

namespace s3oram {

/// One executor; not thread-safe. All of it within a HealingTurn.
class Settler {
 public:
  Settler(VolumeState& state, SlotShares& slots) : state_(state), slots_(slots) {}

  /// Whether a slot that one server gives to another is compared with those of more servers: what a
  /// mirror's server gives would else count on its word alone. (Shares that do not fit do not
  /// open.)
  bool copies_are_compared() const;
  /// Compares what these servers hold of the buckets, and settles what does not fit together.
  Task<Status> compare(std::set<BucketIndex> buckets, const std::set<Party>& servers);
  Task<Status> compare(BucketIndex bucket, const Bytes& servers);
  /// Reads all shares of a slot. Those that do not fit to the t + 1 whose content opens are
  /// replaced. Returns the content; std::nullopt if too few open, or can be read.
  Task<Result<std::optional<Bytes>>> settle(SlotAddress at, const Bytes& asked);

 private:
  bool is_settled(SlotAddress at) const;
  bool fit_together(const std::vector<Bytes>& digests, const Bytes& servers) const;

  VolumeState& state_;
  SlotShares& slots_;
};

}  // namespace s3oram
