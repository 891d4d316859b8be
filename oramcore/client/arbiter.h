// Deals with a failed check of an eviction: finds out who lied, as far as that is possible, and
// compares all shares of the path (docs/protocol.md, "The check of a shuffle"). What servers see
// depends only on the fact that the check failed.
#pragma once

#include "oramcore/client/healing_turn.h"
#include "oramcore/client/preparer.h"
#include "oramcore/client/prover.h"
#include "oramcore/client/settler.h"

namespace s3oram {

/// One executor; not thread-safe.
class Arbiter {
 public:
  Arbiter(VolumeState& state, SlotShares& slots, HealingTurn& turn, Settler& settler,
          Prover& prover)
      : state_(state), slots_(slots), turn_(turn), settler_(settler), prover_(prover) {}

  /// Names the liar, if the attempt's check failed and the liar can be found, and settles the path.
  /// Returns the error that ends the eviction if this was the last attempt.
  Task<Status> after_disagreement(Error found, std::optional<Dispute> dispute, bool last);

 private:
  struct PathRead;
  Task<Result<std::optional<Error>>> find_liar(Dispute dispute, Error found);
  Task<Result<std::optional<Error>>> name_from(PathRead read, Dispute dispute, Error found);
  Task<Status> read_path_shares(const std::vector<SlotAddress>& slots, PathRead& read);
  Task<Status> read_shares_from(std::size_t& next, const std::vector<SlotAddress>& slots,
                                PathRead& read);
  void take_shares(std::size_t nth, SlotAddress at, const std::vector<Result<Payload>>& answers,
                   PathRead& read);
  Task<Status> settle_path();

  VolumeState& state_;
  SlotShares& slots_;
  HealingTurn& turn_;
  Settler& settler_;
  Prover& prover_;
};

}  // namespace s3oram
