// Makes the commits of a ring's vault.db, and frees the slots of the top's cache with them.
#pragma once

#include <atomic>

#include "oramcore/client/commit_loop.h"
#include "oramcore/oram/block_device.h"
#include "oramcore/schemes/ring/client/ring_state.h"

namespace s3oram::ring {

/// One executor; not thread-safe, except for set_participant() and has_ballast().
class Committer {
 public:
  Committer(Executor executor, Executor database, Clock& clock, RingState state, TopCache& cache,
            Troubles& troubles, EngineMetrics& metrics)
      : database_(database),
        state_(std::move(state)),
        cache_(cache),
        loop_(std::move(executor), std::move(database), clock, troubles, metrics,
              [this] { return begin(); }) {}

  /// Runs `work(state)` on the database's thread.
  template <class Work>
  auto with_state(Work work) {
    return offload(database_, [this, work = std::move(work)]() mutable { return work(state_); });
  }
  bool has_ballast() const { return state_.has_ballast(); }
  void set_participant(CommitParticipant* participant) { participant_ = participant; }

  /// The content of the next commit, in addition to the participant's changes.
  RingTree tree;
  RingChanges changes;

  /// These do what CommitLoop's do.
  Task<Status> commit() { return loop_.commit(); }
  Task<Status> commit_until_done(const std::optional<Error>& dead) {
    return loop_.commit_until_done(dead);
  }
  Task<void> ended() { return loop_.ended(); }
  Duration under_way_for() const { return loop_.under_way_for(); }

  /// Returns the state as of the last commit, which the server must not get ahead of.
  const RingTree& durable() const { return durable_; }
  void set_loaded(const RingTree& loaded) { tree = durable_ = loaded; }

 private:
  CommitWork begin();

  Executor database_;
  RingState state_;
  TopCache& cache_;
  std::atomic<CommitParticipant*> participant_ = nullptr;
  RingTree durable_;
  CommitLoop loop_;
};

}  // namespace s3oram::ring
