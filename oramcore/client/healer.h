// Heals damaged slots before anything is computed with them (Rule::checksums): t + 1 intact shares
// of a slot give the share of any server. Every server may know which slots these are; only the
// client sees their content.
#pragma once

#include <map>
#include <set>

#include "oramcore/client/agreement.h"
#include "oramcore/client/committer.h"
#include "oramcore/client/healing_turn.h"
#include "oramcore/client/settler.h"

namespace s3oram {

/// One executor; not thread-safe.
class Healer {
 public:
  using Damage = std::map<SlotAddress, std::set<Party>>;  // which servers lack their share
  /// What happens to a slot of which too few servers have their share: it becomes a sharing of
  /// zeros, so that it harms nothing else, or it is left, because a server's disk may come back.
  enum class Loss { zeroed, left };

  Healer(VolumeState& state, Committer& committer, SlotShares& slots, HealingTurn& turn,
         Settler& settler)
      : state_(state), committer_(committer), slots_(slots), turn_(turn), settler_(settler) {}

  /// Heals the damage that servers have found so far. One round serves all who came before it.
  Task<Status> heal();

  // ---- within a HealingTurn of the caller

  static constexpr BucketIndex kEveryBucket = 0;
  /// Adds the damage that these servers report, of one bucket or of all.
  Task<Status> add_damage(MessageType question, Bytes message, std::set<Party> servers, Damage& to,
                          BucketIndex of = kEveryBucket);
  Task<Status> heal_slots(Damage damage, Loss loss);

 private:
  struct SlotFound;
  bool has_slot(SlotAddress at) const;
  Task<Status> heal_some(Damage& damage, Loss loss);
  Task<Status> heal_slot(SlotAddress at, std::set<Party> damaged, Loss loss);
  bool may_send_shares() const;
  Task<std::vector<Result<Payload>>> ask_for_share(SlotAddress at, Party to, Bytes helpers);
  Task<Result<Payload>> ask_for_part(Party helper, Bytes message, Party to,
                                     std::uint64_t request_id,
                                     std::shared_ptr<Servers::JointAttempt> attempt);
  Task<SlotFound> find_shares(SlotAddress at, const std::set<Party>& damaged);
  std::optional<Agreement> agreement_on(SlotAddress at, const Bytes& servers,
                                        const std::vector<Bytes>& shares) const;
  Task<Status> heal_through_client(SlotAddress at, std::set<Party> damaged, Loss loss);
  Task<Status> share_again(SlotAddress at, Bytes content);

  VolumeState& state_;
  Committer& committer_;
  SlotShares& slots_;
  HealingTurn& turn_;
  Settler& settler_;
  std::uint64_t rounds_ = 0;
  Duration shares_again_ = Duration::min();  // from then on servers may send each other shares
};

}  // namespace s3oram
