// Heals damaged slots before anything is computed with them (Rule::checksums): t + 1 intact shares
// of a slot determine the share of any server. Every server may know which slots are damaged; only
// the client sees their content.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "oramcore/client/agreement.h"
#include "oramcore/client/committer.h"
#include "oramcore/client/healing_turn.h"
#include "oramcore/client/prover.h"
#include "oramcore/client/settler.h"

namespace s3oram {

/// One executor; not thread-safe.
class Healer {
 public:
  using Damage = ServersBySlot;  // the servers that lack their share
  /// The fate of a slot for which too few servers have their share. It becomes a sharing of zeros,
  /// so that it harms nothing else; or it is left, because a server's disk may come back.
  enum class Loss { zeroed, left };

  Healer(VolumeState& state, Committer& committer, SlotShares& slots, HealingTurn& turn,
         Settler& settler, Prover& prover, RepairRecord& record)
      : state_(state),
        committer_(committer),
        slots_(slots),
        turn_(turn),
        settler_(settler),
        prover_(prover),
        record_(record) {}

  /// Heals the damage that servers have found so far, and proves what a scrub that failed has left
  /// unproven. One round serves all callers that came before it.
  Task<Status> heal();
  /// Ends what the last run may have left (VolumeState::refreshes).
  Task<Status> end_refreshes();

  // ---- only while the caller holds the HealingTurn

  /// Ends all refreshes that were interrupted (end_refreshes()).
  Task<Status> end_all_refreshes();
  static constexpr BucketIndex kEveryBucket = 0;
  /// Adds the damage that these servers report, in one bucket or in all. Leaves out slots that no
  /// honest server reports, because they are not written or are just being written.
  Task<Status> add_damage(MessageType question, Bytes message, std::set<Party> servers, Damage& to,
                          BucketIndex of = kEveryBucket);
  Task<Status> heal_slots(Damage damage, Loss loss);

 private:
  struct SlotFound;
  Task<Status> add_all_damage(Damage& to);
  Task<Status> prove_restored();
  Task<Status> heal_some(Damage& damage, Loss loss);
  Task<Status> heal_slot(SlotAddress at, std::set<Party> damaged, Loss loss);
  bool may_send_shares() const;
  Task<std::vector<Result<Payload>>> ask_for_share(SlotAddress at, Party to, Bytes helpers);
  Task<Result<Payload>> ask_for_part(Party helper, Bytes message, Party to,
                                     std::uint64_t request_id,
                                     std::shared_ptr<Servers::JointAttempt> attempt);
  Task<SlotFound> find_shares(SlotAddress at, const std::set<Party>& damaged);
  void report_lost(SlotAddress at, const SlotFound& found);
  std::optional<Agreement> agreement_on(SlotAddress at, const Bytes& servers,
                                        const std::vector<Bytes>& shares) const;
  Task<Status> heal_through_client(SlotAddress at, std::set<Party> damaged, Loss loss);
  Task<Status> write_shares(SlotAddress at, const std::vector<Party>& to,
                            std::function<Bytes(Party)> share_of, std::set<Party>& refusing);
  Task<Status> refresh(SlotAddress at, Bytes content, const std::set<Party>& claiming);
  Task<Status> share_again(SlotAddress at, Bytes content, const std::set<Party>& claiming);
  void forget_refresh(SlotAddress at);

  VolumeState& state_;
  Committer& committer_;
  SlotShares& slots_;
  HealingTurn& turn_;
  Settler& settler_;
  Prover& prover_;
  RepairRecord& record_;
  std::uint64_t rounds_ = 0;
  Duration shares_again_ = Duration::min();  // after this, servers may send each other shares
};

}  // namespace s3oram
