// Makes the commits of an S3ORAM volume's vault.db: the tree's numbers and all changes so far.
#pragma once

#include <atomic>

#include "oramcore/client/commit_loop.h"
#include "oramcore/client/volume_state.h"

namespace s3oram {

/// One executor; not thread-safe, except for set_participant() and has_ballast().
class Committer {
 public:
  /// `database` has been opened but not loaded.
  Committer(VolumeState& state, ClientState database);

  /// Runs `work(state)` on the database's thread.
  template <class Work>
  auto with_database(Work work) {
    return offload(state_.environment.database,
                   [this, work = std::move(work)]() mutable { return work(database_); });
  }
  bool has_ballast() const { return database_.has_ballast(); }
  void set_participant(CommitParticipant* participant) { participant_ = participant; }
  /// Forgets older sessions: once every server has this one, they cannot come back.
  Task<Status> forget_older_sessions();

  /// These do what CommitLoop's do.
  Task<Status> commit() { return loop_.commit(); }
  Task<Status> commit_until_done() { return loop_.commit_until_done(state_.dead); }
  Task<void> ended() { return loop_.ended(); }
  Duration under_way_for() const { return loop_.under_way_for(); }
  std::uint64_t steps() const { return loop_.steps(); }

  /// Returns the state of the last commit. No server may get ahead of it.
  const TreeState& durable() const { return durable_; }
  void set_loaded(const TreeState& loaded) { state_.tree = durable_ = loaded; }

 private:
  CommitWork begin();

  VolumeState& state_;
  ClientState database_;
  std::atomic<CommitParticipant*> participant_ = nullptr;  // set on other threads
  TreeState durable_;
  CommitLoop loop_;
};

}  // namespace s3oram
