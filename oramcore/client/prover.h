// Proves with marks (docs/protocol.md, "Share marks") that servers hold the shares that they held
// when an eviction wrote them, and finds out who does not.
//
// Whether a mark fits depends only on what was changed, not on what is in the slots: a bucket is
// asked for, read and judged as a whole, with dead and empty slots like live ones.
#pragma once

#include <map>
#include <set>
#include <span>

#include "oramcore/client/committer.h"
#include "oramcore/client/slot_shares.h"

namespace s3oram {

/// One executor; not thread-safe. Use it only within a HealingTurn.
class Prover {
 public:
  Prover(VolumeState& state, Committer& committer, SlotShares& slots)
      : state_(state), committer_(committer), slots_(slots) {}

  /// The servers at which shares were restored, by stored_bucket().
  using Mended = std::map<BucketIndex, std::set<Party>>;
  /// Compares what servers hold with their marks, in the buckets from `first` on and before `end`;
  /// the root stands for its stash part. Asks the servers of `repaired` about all these buckets,
  /// because a repair may have been cut short before, and those of `mended` about the buckets that
  /// were mended there. Other shares have come from nobody but the eviction. Where a mark does not
  /// fit, gives the server the shares that fit, if enough other servers still have theirs;
  /// otherwise names those that do not, and has the server disown its shares, so that nothing is
  /// computed with them. Counts buckets of `mended` if there is no mark that the shares could be
  /// compared with.
  Task<Status> prove(BucketIndex first, BucketIndex end, const std::set<Party>& repaired,
                     const Mended& mended);
  /// Names all servers that show other shares of the slot's bucket than they had when it was
  /// written. Call it before the slot is given up.
  Task<Status> name_liars(SlotAddress at);
  /// Durably forgets the marks of the slot's bucket. Call it before its shares are replaced by
  /// others.
  Task<Status> forget(SlotAddress at);
  /// Returns the bucket in which a server stores the slot; std::nullopt for the root buffer, whose
  /// slots have no marks.
  std::optional<BucketIndex> stored_bucket(SlotAddress at) const;

 private:
  struct Shown;
  struct Proof;
  using Shares = std::vector<Bytes>;  // one server's shares of a bucket, by slot
  bool keeps_marks() const { return state_.scheme->keeps_marks(); }
  SlotAddress address(BucketIndex bucket, std::size_t slot) const;
  Task<Result<std::optional<MarkRow>>> marks_of(BucketIndex bucket);
  Task<Status> find_marks(std::vector<Proof>& proofs);
  Task<Mark> mark_of(const MarkRow& row, Party server, const Shares& shares) const;
  Task<Status> compare_at(Party server, std::vector<Proof>& proofs);
  Task<Status> compare_some(Party server, std::span<Proof* const> proofs);
  Task<std::shared_ptr<const Shown>> read(BucketIndex bucket, const MarkRow& row);
  Task<Status> put_right(BucketIndex bucket, const MarkRow& row, std::set<Party> wrong);
  Task<Status> give_shares(BucketIndex bucket, const MarkRow& row, const Shown& shown,
                           Party server);
  Task<Status> disown(BucketIndex bucket, Party server);
  void name(Party server, BucketIndex bucket);

  VolumeState& state_;
  Committer& committer_;
  SlotShares& slots_;
};

}  // namespace s3oram
