// Runs the commits one at a time, and tells everyone who asked for them.
#include "oramcore/client/commit_loop.h"

#include <spdlog/spdlog.h>

#include "oramcore/client/servers.h"

namespace s3oram {
namespace {

constexpr Duration kSlowCommit = std::chrono::seconds(1);

}  // namespace

Task<Status> CommitLoop::commit() {
  const std::uint64_t mine = ++asked_;
  if (!running_) spawn(executor_, run());
  while (done_ < mine) co_await changed_.wait();
  co_return last_;
}

Task<Status> CommitLoop::commit_until_done(const std::optional<Error>& dead) {
  for (;;) {
    const Status done = co_await commit();
    if (dead) co_return fail(*dead);
    if (done) co_return done;
    if (told_.pass(clock_.now()))
      spdlog::error("vault.db: {}; trying again{}", done.error().message, told_.more());
    co_await clock_.sleep(Servers::kRetryAfter);
  }
}

Task<void> CommitLoop::ended() {
  while (running_) co_await changed_.wait();
}

Task<void> CommitLoop::run() {
  running_ = true;
  // Includes callers that ask for a commit later in this turn of the executor.
  co_await asio::post(executor_, asio::use_awaitable);
  while (done_ < asked_) co_await commit_once();
  running_ = false;
  changed_.notify_all();
}

Task<void> CommitLoop::commit_once() {
  const std::uint64_t covered = asked_;
  CommitWork work = begin_();
  begun_ = clock_.now();
  last_ = co_await offload(database_, work.write);
  const Duration ended = clock_.now();
  metrics_.commit_seconds.observe(ended - *begun_);
  if (last_ && ended - *begun_ >= kSlowCommit) ++steps_;
  begun_.reset();
  if (last_) {
    troubles_.worked(kClient, MessageType::commit);
  } else {
    metrics_.commit_failures.add();
    troubles_.failed(kClient, MessageType::commit, last_.error(), ended);
  }
  work.ended(last_);
  done_ = covered;
  changed_.notify_all();
}

}  // namespace s3oram
