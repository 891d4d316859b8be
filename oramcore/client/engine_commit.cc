// Commits of vault.db: one at a time, each for everyone who asked before it began.
#include <spdlog/spdlog.h>

#include "oramcore/client/engine.h"

namespace s3oram {

void Engine::commit(std::function<void(Status)> done) {
  asio::post(environment_.executor, [this, done = std::move(done)]() mutable {
    start([](Engine& engine, std::function<void(Status)> then) -> Task<void> {
      then(co_await engine.commit_now());
    }(*this, std::move(done)));
  });
}

Task<Status> Engine::commit_now() {
  const std::uint64_t mine = ++commits_asked_;
  if (!committing_) spawn(environment_.executor, commit_loop());
  while (commits_done_ < mine) co_await committed_.wait();
  co_return last_commit_;
}

/// Commits, and tries until that has worked: for changes that must be durable before anything else
/// can happen.
Task<Status> Engine::commit_until_done() {
  for (;;) {
    const Status done = co_await commit_now();
    if (dead_) co_return fail(*dead_);
    if (done) co_return done;
    if (told_of_commit_.pass(environment_.clock.now()))
      spdlog::error("vault.db: {}; trying again{}", done.error().message, told_of_commit_.more());
    co_await environment_.clock.sleep(Servers::kRetryAfter);
  }
}

Task<void> Engine::commit_loop() {
  committing_ = true;
  // Includes those who ask for a commit later in this turn of the executor.
  co_await asio::post(environment_.executor, asio::use_awaitable);
  while (commits_done_ < commits_asked_) {
    const std::uint64_t covered = commits_asked_;
    // Nothing may run between these three: they describe one state.
    StateChanges changes = std::exchange(pending_, {});
    const TreeState tree = tree_;
    CommitParticipant* const participant = participant_;
    auto with = participant ? participant->snapshot() : std::function<Status(Database&)>();
    const Duration begun = environment_.clock.now();
    commit_begun_ = begun;
    last_commit_ =
        co_await offload(environment_.database, [&] { return state_.commit(tree, changes, with); });
    commit_begun_.reset();
    const Duration ended = environment_.clock.now();
    metrics_.commit_seconds.observe(ended - begun);
    if (last_commit_)
      servers_.troubles().worked(kClient, MessageType::commit);
    else
      servers_.troubles().failed(kClient, MessageType::commit, last_commit_.error(), ended);
    if (last_commit_) durable_ = tree;
    if (!last_commit_) metrics_.commit_failures.add();
    if (!last_commit_) pending_.merge_older(std::move(changes));
    if (participant) participant->committed(last_commit_);
    commits_done_ = covered;
    committed_.notify_all();
  }
  committing_ = false;
  committed_.notify_all();
}

}  // namespace s3oram
