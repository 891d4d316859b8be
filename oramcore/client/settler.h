// Compares servers' shares by digests, and settles slots whose shares contradict each other. A
// share can be wrong although its checksum is right, if a server lies or its memory fails.
#pragma once

#include "oramcore/client/slot_shares.h"

namespace s3oram {

/// One executor; not thread-safe. Use it only within a HealingTurn.
class Settler {
 public:
  Settler(VolumeState& state, SlotShares& slots) : state_(state), slots_(slots) {}

  /// Returns whether slots that one server copies to another are compared with those of more
  /// servers. If they are not, nothing but the word of the one server vouches for a copy in a
  /// mirror. (In other schemes, inconsistent shares do not open.)
  bool copies_are_compared() const;
  /// Compares what these servers hold in the buckets, and settles slots whose shares are
  /// inconsistent.
  Task<Status> compare(std::set<BucketIndex> buckets, const std::set<Party>& servers);
  Task<Status> compare(BucketIndex bucket, const Bytes& servers);
  /// Reads all shares of a slot, and replaces those that contradict the t + 1 whose content opens.
  /// Returns the content; std::nullopt if too few shares open or can be read.
  Task<Result<std::optional<Bytes>>> settle(SlotAddress at, const Bytes& asked);
  /// Returns whether no write to the slot is under way. Slots that no write has reached are not
  /// settled either.
  bool is_settled(SlotAddress at) const;

 private:
  bool fit_together(const std::vector<Bytes>& digests, const Bytes& servers) const;

  VolumeState& state_;
  SlotShares& slots_;
};

}  // namespace s3oram
