// Proves with marks (docs/protocol.md, "Share marks") that servers hold the shares that they held
// when an eviction wrote them, and finds out who does not.
//
// Whether a mark fits depends only on what was changed, not on what is in the slots: a bucket is
// asked for, read and judged as a whole, with dead and empty slots like live ones.
#pragma once

#include <map>
#include <set>
#include <span>

#include "oramcore/client/repair_record.h"
#include "oramcore/client/slot_shares.h"

namespace s3oram {

/// One executor; not thread-safe. Use it only within a HealingTurn.
class Prover {
 public:
  Prover(VolumeState& state, Committer& committer, SlotShares& slots, const RepairRecord& record)
      : state_(state), committer_(committer), slots_(slots), record_(record) {}

  /// Compares what servers hold with their marks, in the buckets from `first` on and before `end`;
  /// the root stands for its stash part. Asks the servers of `repaired` about all these buckets,
  /// because a program that keeps no record may have repaired them, and the others about the
  /// buckets that the record lists for them. Other shares have come from nobody but the eviction.
  ///
  /// Where a mark does not fit, names the servers that do not show what they had. Gives these and
  /// the asked ones the shares that follow from those that fit their marks, or that open. Where
  /// nothing follows, has the asked ones disown what others have sent them, so that nothing is
  /// computed with it. Returns how many such slots there are. Counts buckets of the record if there
  /// is no mark that the shares could be compared with. Leaves the record as it is.
  Task<Result<std::size_t>> prove(BucketIndex first, BucketIndex end,
                                  const std::set<Party>& repaired);
  /// Does this for all buckets of the record.
  Task<Result<std::size_t>> prove_rest();
  /// Names all servers that show other shares of the slot's bucket than they had when it was
  /// written. Call it before the slot is given up.
  Task<Status> name_liars(SlotAddress at);
  /// Durably forgets the marks of the slot's bucket. Call it before its shares are replaced by
  /// others.
  Task<Status> forget(SlotAddress at);
  /// Notes that a server has not taken its new share of the slot, so that it gets no new mark.
  void note_refusal(SlotAddress at, Party server) { refused_[at.bucket].insert(server); }
  /// Asks all servers for new marks of the buckets whose marks were forgotten since the last call.
  /// Call it when all their new shares are written.
  Task<Status> mark_again();
  /// Gives up new marks of these buckets, because some of their new shares may not be written.
  void mark_none_again() {
    forgotten_.clear();
    refused_.clear();
  }
  /// Returns the bucket in which a server stores the slot; std::nullopt for the root buffer, whose
  /// slots have no marks.
  std::optional<BucketIndex> stored_bucket(SlotAddress at) const;

 private:
  struct Shown;
  struct Proof;
  bool keeps_marks() const { return state_.scheme->keeps_marks(); }
  SlotAddress address(BucketIndex bucket, std::size_t slot) const;
  std::uint16_t slot_in_stored(SlotAddress at) const;
  Task<Result<std::optional<MarkRow>>> marks_of(BucketIndex bucket);
  std::vector<Proof> proofs_for(BucketIndex first, BucketIndex end,
                                const std::set<Party>& repaired) const;
  Task<Status> find_marks(std::vector<Proof>& proofs);
  Task<Mark> mark_of(const MarkRow& row, Party server,
                     std::vector<const std::uint8_t*> shares) const;
  Task<Status> compare_at(Party server, std::vector<Proof>& proofs);
  Task<Status> compare_some(Party server, std::span<Proof* const> proofs);
  void restored_all(Proof& proof, Party server) const;
  Task<std::shared_ptr<const Shown>> read(BucketIndex bucket, const MarkRow& row,
                                          const std::set<Party>& wrong);
  Task<Result<std::size_t>> put_right(const Proof& proof);
  bool shows_restored(const Proof& proof, const Shown& shown) const;
  std::optional<Bytes> right_share(Party server, SlotAddress at, std::uint16_t slot,
                                   const Shown& shown) const;
  Task<Result<std::size_t>> put_right_at(Party server, const Proof& proof, const Shown& shown);
  Task<Status> disown(Party server, BucketIndex bucket, std::vector<std::uint16_t> slots);
  bool is_shared(BucketIndex bucket, const MarkRow& row) const;
  Task<Status> mark_some_again(const std::vector<BucketIndex>& buckets);
  void name(Party server, BucketIndex bucket);

  VolumeState& state_;
  Committer& committer_;
  SlotShares& slots_;
  const RepairRecord& record_;
  std::map<BucketIndex, MarkRow> forgotten_;        // since the last mark_again()
  std::map<BucketIndex, std::set<Party>> refused_;  // by bucket of the tree
};

}  // namespace s3oram
