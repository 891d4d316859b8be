// The client's part in evictions (Subroutine 3): plan, prepare, decide, commit (docs/protocol.md,
// "One eviction"; Rule::decide_first). Runs one at a time, for as long as one is due.
#pragma once

#include "oramcore/base/log_limit.h"
#include "oramcore/client/arbiter.h"
#include "oramcore/client/capacity.h"
#include "oramcore/client/eviction_gate.h"
#include "oramcore/client/marker.h"
#include "oramcore/client/retriever.h"

namespace s3oram {

/// One executor; not thread-safe.
class EvictionLoop {
 public:
  /// `return_to_tree` reads a block of the stash and writes it back, unless the block is in use.
  EvictionLoop(VolumeState& state, Committer& committer, Capacity& capacity, HealingTurn& turn,
               Healer& healer, Retriever& retriever, EvictionGate& gate, Preparer preparer,
               Arbiter arbiter, Marker marker, std::function<void(BlockId)> return_to_tree);

  /// Begins no more evictions, for a caller who only reads the volume.
  void forbid() { may_evict_ = false; }
  /// Begins no eviction until let_begin().
  void hold_back();
  void let_begin() { evicting_ = false; }
  void begin_if_due();

  bool under_way() const { return evicting_; }
  Duration under_way_for() const { return evicting_ ? state_.now() - begun_ : Duration{}; }
  Duration begun() const { return begun_; }  // when the one under way began
  Duration takes() const { return takes_; }  // estimated from the last ones
  std::uint64_t count() const { return evictions_; }
  /// Returns why no more evictions are begun; std::nullopt if they are.
  const std::optional<Error>& stopped() const { return stopped_; }
  /// Returns the attempt that was sent to servers and is not yet durably decided.
  const std::optional<EvictionId>& attempt() const { return attempt_; }

 private:
  bool is_due() const;
  Task<void> evict();
  Task<Status> evict_once();
  struct Failures;
  Task<Status> after_failure(Error why, Failures& failures);
  Task<void> await_decision_allowed();
  Task<Result<EvictionPlan>> plan_that_fits();
  EvictionPath path_now() const;
  Task<Status> to_stash(BlockId block);
  void decide(const EvictionPlan& plan, const EvictionId& id, unsigned next_height,
              std::map<BucketIndex, MarkRow> marks);
  Task<Status> install();
  void stop(Error reason);

  VolumeState& state_;
  Committer& committer_;
  Capacity& capacity_;
  HealingTurn& turn_;
  Healer& healer_;
  Retriever& retriever_;
  EvictionGate& gate_;
  Preparer preparer_;
  Arbiter arbiter_;
  Marker marker_;
  const std::function<void(BlockId)> return_to_tree_;
  bool may_evict_ = true, evicting_ = false;
  std::optional<Error> stopped_;
  std::optional<EvictionId> attempt_;
  std::uint64_t evictions_ = 0;
  Duration begun_{}, takes_{};
  LogLimit told_;
};

}  // namespace s3oram
