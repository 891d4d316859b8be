// The loop of commits.
#include "oramcore/schemes/ring/client/committer.h"

#include <spdlog/spdlog.h>

namespace s3oram::ring {

Task<Status> Committer::commit() {
  const std::uint64_t mine = ++asked_;
  if (!running_) spawn(executor_, run());
  while (done_ < mine) co_await ended_.wait();
  co_return last_;
}

Task<Status> Committer::commit_until_done(const std::optional<Error>& dead) {
  for (;;) {
    const Status done = co_await commit();
    if (done || dead) co_return done;
    if (told_.pass(clock_.now()))
      spdlog::error("vault.db: {}; trying again{}", done.error().message, told_.more());
    co_await clock_.sleep(Servers::kRetryAfter);
  }
}

Task<void> Committer::run() {
  running_ = true;
  // Takes along those that are about to ask in this turn of the executor.
  co_await asio::post(executor_, asio::use_awaitable);
  while (done_ < asked_) {
    const std::uint64_t covered = asked_;
    // These belong together: nothing may run between them.
    RingChanges taken = std::exchange(changes, {});
    std::set<CacheSlot> freed = cache_.begin_commit();
    const RingTree numbers = tree;
    CommitParticipant* const participant = participant_;
    auto with = participant ? participant->snapshot() : std::function<Status(Database&)>();
    begun_ = clock_.now();
    last_ = co_await offload(database_, [&] { return state_.commit(numbers, taken, with); });
    const Duration ended = clock_.now();
    metrics_.commit_seconds.observe(ended - *begun_);
    begun_.reset();
    if (last_) {
      durable_ = numbers;
      cache_.committed(std::move(freed));
      troubles_.worked(kClient, MessageType::commit);
    } else {
      metrics_.commit_failures.add();
      changes.merge_older(std::move(taken));
      cache_.not_committed(std::move(freed));
      troubles_.failed(kClient, MessageType::commit, last_.error(), ended);
    }
    if (participant) participant->committed(last_);
    done_ = covered;
    ended_.notify_all();
  }
  running_ = false;
  ended_.notify_all();
}

}  // namespace s3oram::ring
