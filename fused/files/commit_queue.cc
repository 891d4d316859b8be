// Collects the changes to names, blocks and backups for each commit of the device.
#include "fused/files/commit_queue.h"

#include <spdlog/spdlog.h>

#include <memory>
#include <optional>
#include <utility>

namespace s3oram {

PosixStatus CommitQueue::commit(Lock& lock) {
  const auto outcome = std::make_shared<std::optional<Status>>();
  ++waiting_;
  state_.device.commit([this, outcome](Status status) {
    const Lock locked(state_.mutex);
    --waiting_;
    *outcome = std::move(status);
    state_.cache.waits.wake(false);
  });
  if (!state_.cache.waits.until(lock, [&] { return outcome->has_value(); }))
    return posix_error(EIO);
  S3O_POSIX_TRY(**outcome);
  return {};
}

std::function<Status(Database&)> CommitQueue::begin() {
  if (state_.options.read_only) return [](Database&) { return Status(); };
  state_.cache.numbers.begin_commit();
  auto list = backups_.snapshot(state_.metadata.uncommitted() > 0);
  return [rows = state_.metadata.begin_commit(numbers_.begin_commit(state_.stopping)),
          list = std::move(list)](Database& db) -> Status {
    S3O_TRY(rows(db));
    return list ? list(db) : Status();
  };
}

void CommitQueue::end(const Status& outcome) {
  if (!outcome && told_.pass(state_.timing.now().time_since_epoch()))
    spdlog::error("a commit failed and will be retried: {}{}", outcome.error().message,
                  told_.more());
  if (!state_.options.read_only) state_.metadata.end_commit(outcome.has_value());
  numbers_.end_commit(outcome.has_value());
  state_.cache.numbers.end_commit(outcome.has_value());
  backups_.committed(outcome.has_value());
  state_.cache.waits.wake(false);  // not progress of an access, because a commit needs no server
}

}  // namespace s3oram
