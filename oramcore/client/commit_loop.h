// Commits of vault.db, one at a time. Each serves every caller that asked before it began.
#pragma once

#include <atomic>

#include "oramcore/base/log_limit.h"
#include "oramcore/client/engine_metrics.h"
#include "oramcore/client/troubles.h"

namespace s3oram {

/// A commit that is about to be made.
struct CommitWork {
  std::function<Status()> write;             // runs in one transaction, on the database's thread
  std::function<void(const Status&)> ended;  // runs on the loop's executor
};

/// One executor; not thread-safe.
class CommitLoop {
 public:
  /// `begin` fixes what a commit holds: all changes made up to that moment. If the commit fails,
  /// the next one must include them.
  CommitLoop(Executor executor, Executor database, Clock& clock, Troubles& troubles,
             EngineMetrics& metrics, std::function<CommitWork()> begin)
      : executor_(std::move(executor)),
        database_(std::move(database)),
        clock_(clock),
        troubles_(troubles),
        metrics_(metrics),
        begin_(std::move(begin)) {}

  /// Commits all changes made so far. Errors: those of the database.
  Task<Status> commit();
  /// Commits changes that must be durable before anything else can happen: tries until it succeeds.
  /// Errors: `dead`, once it is set.
  Task<Status> commit_until_done(const std::optional<Error>& dead);
  /// Waits until no commit is under way.
  Task<void> ended();
  /// Returns how long the database has worked on the commit under way; 0 if there is none.
  Duration under_way_for() const { return begun_ ? clock_.now() - *begun_ : Duration{}; }
  /// Returns how many commits were slow, but succeeded. Quick ones do not count: they say nothing
  /// about an access that waits for servers. May be called on any thread.
  std::uint64_t steps() const { return steps_; }

 private:
  Task<void> run();
  Task<void> commit_once();

  Executor executor_, database_;
  Clock& clock_;
  Troubles& troubles_;
  EngineMetrics& metrics_;
  std::function<CommitWork()> begin_;
  std::uint64_t asked_ = 0, done_ = 0;
  std::atomic<std::uint64_t> steps_ = 0;
  bool running_ = false;
  Status last_;
  std::optional<Duration> begun_;  // when the database began to work on the commit
  LogLimit told_;
  Event changed_;
};

}  // namespace s3oram
