// Commits of vault.db: one at a time, each for everyone who asked before it began.
#pragma once

#include <atomic>

#include "oramcore/base/log_limit.h"
#include "oramcore/client/engine_metrics.h"
#include "oramcore/client/servers.h"
#include "oramcore/oram/block_device.h"
#include "oramcore/schemes/ring/client/ring_state.h"

namespace s3oram::ring {

/// One executor; not thread-safe, but for set_participant() and has_ballast().
class Committer {
 public:
  Committer(Executor executor, Executor database, Clock& clock, RingState state, TopCache& cache,
            Troubles& troubles, EngineMetrics& metrics)
      : executor_(std::move(executor)),
        database_(std::move(database)),
        clock_(clock),
        state_(std::move(state)),
        cache_(cache),
        troubles_(troubles),
        metrics_(metrics) {}

  /// Runs `work(state)` on the database's thread.
  template <class Work>
  auto with_state(Work work) {
    return offload(database_, [this, work = std::move(work)]() mutable { return work(state_); });
  }
  bool has_ballast() const { return state_.has_ballast(); }
  void set_participant(CommitParticipant* participant) { participant_ = participant; }

  /// What the next commit holds, beside the participant's changes.
  RingTree tree;
  RingChanges changes;

  /// Commits what is there now. Errors: of the database; the changes stay for the next commit.
  Task<Status> commit();
  /// For what must be durable before anything else can happen: tries again until `dead` is set.
  Task<Status> commit_until_done(const std::optional<Error>& dead);
  /// Waits until no commit is under way.
  Task<void> end() {
    while (running_) co_await ended_.wait();
  }

  /// As the last commit has it: the server may not get ahead of that.
  const RingTree& durable() const { return durable_; }
  void set_loaded(const RingTree& loaded) { tree = durable_ = loaded; }
  /// Since when the database works on a commit.
  const std::optional<Duration>& begun() const { return begun_; }

 private:
  Task<void> run();

  Executor executor_, database_;
  Clock& clock_;
  RingState state_;
  TopCache& cache_;
  Troubles& troubles_;
  EngineMetrics& metrics_;
  std::atomic<CommitParticipant*> participant_ = nullptr;
  RingTree durable_;
  std::uint64_t asked_ = 0, done_ = 0;
  bool running_ = false;
  Status last_;
  std::optional<Duration> begun_;
  LogLimit told_;
  Event ended_;
};

}  // namespace s3oram::ring
