// Checks everything that the servers hold (docs/protocol.md, "Scrub"), bucket by bucket, in a way
// that does not depend on the content. Each server reads its shares from its disk, and digests show
// whether the shares of all servers are consistent.
#pragma once

#include "oramcore/client/capacity.h"
#include "oramcore/client/healer.h"

namespace s3oram {

/// One executor; not thread-safe.
class Scrubber {
 public:
  Scrubber(VolumeState& state, Capacity& capacity, SlotShares& slots, HealingTurn& turn,
           Settler& settler, Prover& prover, Healer& healer, RepairRecord& record)
      : state_(state),
        capacity_(capacity),
        slots_(slots),
        turn_(turn),
        settler_(settler),
        prover_(prover),
        healer_(healer),
        record_(record) {}

  /// Implements VolumeEngine::scrub().
  Task<Result<Healed>> scrub(std::set<Party> servers, VolumeEngine::ScrubProgress progress);
  /// Proves what a repair that was cut short has left unproven. Call it before anything is computed
  /// with that. Errors: servers_disagree (not all of it can be proven now; the record keeps it).
  Task<Status> prove_cut_repair();

 private:
  Task<Status> await_in_step(Party server);
  Task<Status> scrub_buckets(const std::set<Party>& servers, const std::set<Party>& repaired,
                             BucketIndex first, BucketIndex end);
  ServersBySlot to_be_proven(const Healer::Damage& damage) const;

  VolumeState& state_;
  Capacity& capacity_;
  SlotShares& slots_;
  HealingTurn& turn_;
  Settler& settler_;
  Prover& prover_;
  Healer& healer_;
  RepairRecord& record_;
};

}  // namespace s3oram
