// Deals with a failed check of an eviction: finds out who lied, as far as that is possible, and
// compares all shares of the path (docs/protocol.md, "The check of a shuffle"). What servers see
// depends only on the fact that the check failed.
#pragma once

#include "oramcore/client/healing_turn.h"
#include "oramcore/client/preparer.h"
#include "oramcore/client/settler.h"

namespace s3oram {

/// One executor; not thread-safe.
class Arbiter {
 public:
  Arbiter(VolumeState& state, SlotShares& slots, HealingTurn& turn, Settler& settler)
      : state_(state), slots_(slots), turn_(turn), settler_(settler) {}

  /// Names the liar, if the attempt's check failed and the liar can be found, and settles the path.
  /// Returns the error that ends the eviction if this was the last attempt.
  Task<Status> after_disagreement(Error found, std::optional<Dispute> dispute, bool last);

 private:
  Task<Result<Party>> find_liar(Dispute dispute);
  Task<bool> read_path_shares(std::vector<SlotAddress> slots, PathShares& shares);
  Task<bool> read_shares_from(std::size_t& next, const std::vector<SlotAddress>& slots,
                              PathShares& shares);
  Error name_liar(Party liar, const Error& found);
  Task<Status> settle_path();

  VolumeState& state_;
  SlotShares& slots_;
  HealingTurn& turn_;
  Settler& settler_;
};

}  // namespace s3oram
