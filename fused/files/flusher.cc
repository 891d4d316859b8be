// Flushes, commits, and looks after memory every few seconds.
#include "fused/files/flusher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

constexpr std::size_t kPacksAtATime = 4;

}  // namespace

Status Flusher::start() {
  next_tick_ = state_.timing.now() + state_.options.commit_every;
  if (!state_.options.own_ticker) return {};
  S3O_ASSIGN(thread_, start_thread("commits", [this] { run(); }));
  return {};
}

void Flusher::join() {
  wakes_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Flusher::wake() {
  kick_ = true;
  wakes_.notify_all();
}

// ---- barriers ----------------------------------------------------------------------------------

PosixStatus Flusher::admit(Lock& lock) {
  if (state_.options.read_only) return posix_error(EROFS);
  const auto has_room = [&] {
    return state_.metadata.uncommitted_bytes() < state_.options.most_uncommitted;
  };
  if (has_room()) return {};
  // Commit here instead of in the ticker: the ticker may be waiting for a server, and a commit
  // needs none. CommitQueue::end() logs a failure, and the ticker retries.
  if (commits_.commit(lock) && has_room()) return {};
  wake();
  if (!state_.cache.waits.until(lock, has_room)) return posix_error(EIO);
  return {};
}

PosixStatus Flusher::flush(Lock& lock, const std::vector<Inodes::NodePtr>& nodes) {
  S3O_POSIX_TRY(state_.cache.flush(lock, nodes, true));
  for (const Inodes::NodePtr& node : nodes) S3O_POSIX_TRY(state_.cache.settle(*node));
  return {};
}

PosixStatus Flusher::sync_all(Lock& lock) {
  const auto begun = state_.timing.now();
  S3O_POSIX_TRY(flush(lock, inodes_.unflushed()));
  const auto outcome = commits_.commit(lock);
  if (outcome) durable_at_ = std::max(durable_at_, begun);
  return outcome;
}

void Flusher::keep_one_content(Lock& lock, const Inodes::NodePtr& node) {
  const auto old = state_.timing.now() - state_.options.commit_every;
  if (!node->replacement || node->size == 0 || node->replacement->since > old || failing_) return;
  // After a failure the data stays dirty; the ticker retries and logs.
  if (!flush(lock, {node})) wake();
}

void Flusher::settle(const std::function<bool(const Node&)>& which) {
  if (!state_.cache.has_replacements()) return;
  for (const auto& [ino, node] : inodes_.in_memory())
    if (node->replacement && which(*node)) state_.cache.settle_or_tell(*node);
}

// ---- the ticker --------------------------------------------------------------------------------

void Flusher::run() {
  Lock lock(state_.mutex);
  while (!state_.stopping) {
    const auto until = beat(lock);
    if (!state_.stopping && !kick_) state_.timing.wait(lock, wakes_, until);
  }
}

Timing::Time Flusher::beat(Lock& lock) {
  state_.cache.retry_failed();
  if (std::exchange(kick_, false) || state_.timing.now() >= next_tick_) {
    tick(lock);
    next_tick_ = state_.timing.now() + state_.options.commit_every;
  }
  return state_.cache.has_failed()
             ? std::min(next_tick_, state_.timing.now() + state_.options.cache.retry)
             : next_tick_;
}

void Flusher::tick(Lock& lock) {
  const auto begun = state_.timing.now();
  inodes_.drop_idle();
  directories_.trim();
  inodes_.trim();
  const bool read_only = state_.options.read_only;
  if (!read_only && !state_.cache.extents.damaged) empty_packs();
  const bool used = state_.cache.take_used();
  const bool changed = !read_only && state_.metadata.uncommitted() > 0;
  if (!used && state_.cache.dirty_bytes() == 0 && !changed && !state_.cache.has_replacements())
    durable_at_ = begun;
  else
    flush_and_commit(lock, begun);
}

void Flusher::flush_and_commit(Lock& lock, Timing::Time begun) {
  const auto old = state_.timing.now() - state_.options.commit_every;
  auto outcome = state_.cache.flush(lock, inodes_.unflushed(), false);
  settle([&](const Node& node) {
    return (outcome || node.unflushed == 0) && node.replacement->emptied <= old;
  });
  state_.cache.take_used();
  if (auto last = commits_.commit(lock); outcome) outcome = last;
  if (!outcome && !failing_)
    spdlog::error("writing fails ({}) and will be retried; {} bytes wait",
                  std::strerror(outcome.error()), state_.cache.dirty_bytes());
  if (outcome) durable_at_ = std::max(durable_at_, begun);
  if (outcome && failing_) spdlog::info("writing works again");
  failing_ = !outcome;
}

/// Moves pieces out of packs that hold little, so that their blocks become free.
void Flusher::empty_packs() {
  for (const BlockId pack : state_.cache.packs.sparse(kPacksAtATime)) {
    const auto pieces = state_.metadata.pieces(pack);
    if (!pieces) return;
    for (const ExtentKey& piece : *pieces) {
      const auto row = state_.metadata.inodes.find(piece.ino);
      if (!row || !*row || (*row)->nlink == 0) continue;
      // Errors are ignored here, because a user of the file will get them.
      const auto node = inodes_.load(piece.ino);
      if (node && state_.cache.move_out(**node, piece.index, pack)) inodes_.drop_if_idle(piece.ino);
    }
  }
}

}  // namespace s3oram
