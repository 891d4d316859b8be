// Makes changes durable: commits, syncs, the ticker and backups.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "fused/files/file_system.h"

namespace s3oram {
namespace {

constexpr std::size_t kPacksAtATime = 4;

}  // namespace

// ---- commits -----------------------------------------------------------------------------------

/// Returns the inode numbers that the beginning commit must reserve. The commits of an unmount give
/// back unused ones, because no inode is made after them.
std::optional<Ino> FileSystem::numbers_to_reserve() {
  reserving_ = reserved_;
  if (!makes_inodes_) return std::nullopt;
  if (stopping_)
    reserving_ = next_ino_;
  else if (next_ino_ + kReservedAtOnce / 2 > reserved_)
    reserving_ = next_ino_ + kReservedAtOnce;
  return reserving_ == reserved_ ? std::nullopt : std::optional(reserving_);
}

std::function<Status(Database&)> FileSystem::snapshot() {
  const Lock lock(mutex_);
  if (options_.read_only) return [](Database&) { return Status(); };
  cache_.numbers.begin_commit();
  auto list = backups_.snapshot(metadata_.uncommitted() > 0);
  return [rows = metadata_.begin_commit(numbers_to_reserve()),
          list = std::move(list)](Database& db) -> Status {
    S3O_TRY(rows(db));
    return list ? list(db) : Status();
  };
}

void FileSystem::committed(const Status& outcome) {
  const Lock lock(mutex_);
  if (!outcome && told_of_commit_.pass(timing_.now().time_since_epoch()))
    spdlog::error("a commit failed and is tried again: {}{}", outcome.error().message,
                  told_of_commit_.more());
  if (!options_.read_only) metadata_.end_commit(outcome.has_value());
  if (outcome) reserved_ = reserving_;
  cache_.numbers.end_commit(outcome.has_value());
  backups_.committed(outcome.has_value());
  backup_wakes_.notify_all();  // one may be due, or due sooner
  cache_.waits.wake(false);    // a commit needs no server, so it is no progress of an access
}

PosixStatus FileSystem::commit(Lock& lock) {
  const auto outcome = std::make_shared<std::optional<Status>>();
  ++commits_;
  device_.commit([this, outcome](Status status) {
    const Lock locked(mutex_);
    --commits_;
    *outcome = std::move(status);
    cache_.waits.wake(false);
  });
  if (!cache_.waits.until(lock, [&] { return outcome->has_value(); })) return posix_error(EIO);
  S3O_POSIX_TRY(**outcome);
  return {};
}

/// Waits until a change may begin, so that the changes in memory stay bounded. EROFS if read-only.
PosixStatus FileSystem::admit(Lock& lock) {
  if (options_.read_only) return posix_error(EROFS);
  const auto has_room = [&] { return metadata_.uncommitted_bytes() < options_.most_uncommitted; };
  if (has_room()) return {};
  // Commit here instead of in the ticker, which may be waiting for a server; a commit needs none.
  // committed() logs a failure, and the ticker tries again.
  if (commit(lock) && has_room()) return {};
  kick_ = true;
  ticker_wakes_.notify_all();
  if (!cache_.waits.until(lock, has_room)) return posix_error(EIO);
  return {};
}

PosixStatus FileSystem::flush(Lock& lock, const std::vector<NodePtr>& nodes) {
  S3O_POSIX_TRY(cache_.flush(lock, nodes, true));
  for (const NodePtr& node : nodes) S3O_POSIX_TRY(cache_.settle(*node));
  return {};
}

/// Leaves out unlinked files, unless their data must survive.
std::vector<FileSystem::NodePtr> FileSystem::unflushed_nodes() const {
  std::vector<NodePtr> nodes;
  for (const auto& [ino, node] : nodes_)
    if ((node->unflushed > 0 || node->replacement) &&
        (node->row.nlink > 0 || cache_.keeps_unlinked))
      nodes.push_back(node);
  return nodes;
}

/// Puts new contents in the place of those that they replace.
void FileSystem::settle(const std::function<bool(const Node&)>& which) {
  if (!cache_.has_replacements()) return;
  for (const auto& [ino, node] : nodes_)
    if (node->replacement && which(*node)) cache_.settle_or_tell(*node);
}

/// A program may empty and rewrite a file faster than its contents become durable. So once every
/// commit_every a content is flushed before the file is emptied again.
void FileSystem::keep_one_content(Lock& lock, const NodePtr& node) {
  const auto old = timing_.now() - options_.commit_every;
  if (!node->replacement || node->size == 0 || node->replacement->since > old || failing_) return;
  // After a failure the data stays dirty; the ticker tries again and logs.
  if (flush(lock, {node})) return;
  kick_ = true;
  ticker_wakes_.notify_all();
}

PosixStatus FileSystem::sync(Ino ino) {
  Lock lock(mutex_);
  S3O_POSIX_GET(node, known(ino));
  if (options_.read_only || !rule_holds(Rule::fsync_barrier)) return {};
  S3O_POSIX_TRY(flush(lock, {node}));
  return commit(lock);
}

PosixStatus FileSystem::sync_names() {
  Lock lock(mutex_);
  if (options_.read_only) return {};
  return commit(lock);
}

PosixStatus FileSystem::sync_all() {
  Lock lock(mutex_);
  if (options_.read_only) return {};
  const auto begun = timing_.now();
  S3O_POSIX_TRY(flush(lock, unflushed_nodes()));
  const auto outcome = commit(lock);
  if (outcome) durable_at_ = std::max(durable_at_, begun);
  return outcome;
}

/// Moves pieces out of packs that hold little, so that their blocks become free.
void FileSystem::empty_packs() {
  for (const BlockId pack : cache_.packs.sparse(kPacksAtATime)) {
    const auto pieces = metadata_.pieces(pack);
    if (!pieces) return;
    for (const ExtentKey& piece : *pieces) {
      const auto row = metadata_.inodes.find(piece.ino);
      if (!row || !*row || (*row)->nlink == 0) continue;
      // Errors are ignored here: a user of the file will get them.
      if (const auto node = load(piece.ino); node && cache_.move_out(**node, piece.index, pack))
        drop_if_idle(piece.ino);
    }
  }
}

/// Bounds the nodes in memory, because the kernel may refer to any number of inodes. Drops nodes
/// that the tables hold completely; they are read again when they are used.
void FileSystem::trim() {
  if (nodes_.size() <= options_.most_nodes) return;
  std::erase_if(nodes_, [](const auto& entry) {
    const NodePtr& node = entry.second;
    return node.use_count() == 1 && node->ino != kRootIno && node->row.nlink > 0 &&
           node->blocks.empty() && !node->replacement;
  });
}

void FileSystem::tick(Lock& lock) {
  const auto begun = timing_.now();
  for (const Ino ino : std::vector<Ino>(idle_.begin(), idle_.end())) drop_if_idle(ino);
  listings_.trim(begun);
  trim();
  if (!options_.read_only && !cache_.extents.damaged) empty_packs();
  const bool used = cache_.take_used();
  const bool changed = !options_.read_only && metadata_.uncommitted() > 0;
  if (!used && cache_.dirty_bytes() == 0 && !changed && !cache_.has_replacements()) {
    durable_at_ = begun;
    return;
  }
  const auto old = timing_.now() - options_.commit_every;
  auto outcome = cache_.flush(lock, unflushed_nodes(), false);
  settle([&](const Node& node) {
    return (outcome || node.unflushed == 0) && node.replacement->emptied <= old;
  });
  cache_.take_used();
  if (auto last = commit(lock); outcome) outcome = last;
  if (!outcome && !failing_)
    spdlog::error("writing fails ({}); it is tried again, {} bytes wait",
                  std::strerror(outcome.error()), cache_.dirty_bytes());
  if (outcome) durable_at_ = std::max(durable_at_, begun);
  if (outcome && failing_) spdlog::info("writing works again");
  failing_ = !outcome;
}

void FileSystem::run_ticker() {
  Lock lock(mutex_);
  while (!stopping_) {
    const auto until = beat(lock);
    if (!stopping_ && !kick_) timing_.wait(lock, ticker_wakes_, until);
  }
}

Timing::Time FileSystem::beat(Lock& lock) {
  cache_.retry_failed();
  if (std::exchange(kick_, false) || timing_.now() >= next_tick_) {
    tick(lock);
    next_tick_ = timing_.now() + options_.commit_every;
  }
  return cache_.has_failed() ? std::min(next_tick_, timing_.now() + options_.cache.retry)
                             : next_tick_;
}

Timing::Time FileSystem::beat() {
  Lock lock(mutex_);
  return beat(lock);
}

// ---- backups -----------------------------------------------------------------------------------

/// `last`: called by unmount(), when everything else has ended.
PosixStatus FileSystem::back_up(Lock& lock, bool last) {
  return backups_.make(
      lock, [this](Lock& held) { return commit(held); },
      [this, last] { return stopping_ && !last; });
}

PosixStatus FileSystem::back_up() {
  Lock lock(mutex_);
  if (options_.read_only) return posix_error(EROFS);
  return back_up(lock);
}

void FileSystem::want_backup() {
  if (std::exchange(backup_wanted_, true)) return;
  backup_wakes_.notify_all();
}

void FileSystem::run_backups() {
  Lock lock(mutex_);
  while (!stopping_) {
    const auto due = backups_.due(options_.back_up_every);
    if (!backup_wanted_ && timing_.now() < due) {
      timing_.wait(lock, backup_wakes_, due);
      continue;
    }
    const auto outcome = back_up(lock);
    // One that failed is wanted until it succeeds: the next one may be due much later.
    backup_wanted_ = !outcome && outcome.error() != EUCLEAN;
    if (outcome) backup_failure_.clear();
    if (outcome || stopping_) continue;
    // While rows are damaged the last backup stays, and status reports the damage.
    if (outcome.error() == EUCLEAN) {
      timing_.wait(lock, backup_wakes_, timing_.now() + options_.back_up_every);
      continue;
    }
    if (backup_failure_.empty()) backup_failing_since_ = timing_.now();
    backup_failure_ = std::strerror(outcome.error());
    if (told_of_backup_.pass(timing_.now().time_since_epoch()))
      spdlog::warn("a backup of the names could not be made ({}); it is tried again{}",
                   std::strerror(outcome.error()), told_of_backup_.more());
    timing_.wait(lock, backup_wakes_, timing_.now() + options_.cache.retry);
  }
}

}  // namespace s3oram
