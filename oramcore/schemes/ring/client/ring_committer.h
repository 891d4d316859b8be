// Makes the commits of a ring's vault.db, and frees the slots of the top's cache with them.
#pragma once

#include <atomic>

#include "oramcore/client/commit_loop.h"
#include "oramcore/oram/block_device.h"
#include "oramcore/schemes/ring/client/open_ring.h"

namespace s3oram::ring {

/// One executor; not thread-safe, except for set_participant() and has_ballast().
class RingCommitter {
 public:
  /// `state` has been opened but not loaded.
  RingCommitter(OpenRing& ring, RingState state);

  /// Runs `work(state)` on the database's thread.
  template <class Work>
  auto with_state(Work work) {
    return offload(ring_.environment.database,
                   [this, work = std::move(work)]() mutable { return work(state_); });
  }
  bool has_ballast() const { return state_.has_ballast(); }
  void set_participant(CommitParticipant* participant) { participant_ = participant; }

  /// These do what CommitLoop's do.
  Task<Status> commit() { return loop_.commit(); }
  Task<Status> commit_until_done() { return loop_.commit_until_done(ring_.dead); }
  Task<void> ended() { return loop_.ended(); }
  Duration under_way_for() const { return loop_.under_way_for(); }
  std::uint64_t steps() const { return loop_.steps(); }

  /// Returns the state as of the last commit, which the server must not get ahead of.
  const RingTree& durable() const { return durable_; }
  void set_loaded(const RingTree& loaded) { ring_.tree = durable_ = loaded; }

 private:
  CommitWork begin();

  OpenRing& ring_;
  RingState state_;
  std::atomic<CommitParticipant*> participant_ = nullptr;
  RingTree durable_;
  CommitLoop loop_;
};

}  // namespace s3oram::ring
