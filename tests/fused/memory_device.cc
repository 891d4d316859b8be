// A block device in memory, which fails, fills up and stops answering when a test says so.
#include "tests/fused/memory_device.h"

#include <cstdlib>
#include <iostream>

namespace s3oram {
namespace {

/// Ends the test on an error, because it needs its device.
template <class T>
T must(Result<T> result) {
  if (!result) {
    std::cerr << result.error().message << "\n";
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace

MemoryDevice::MemoryDevice(const std::string& path, std::uint32_t block_size)
    : block_size_(block_size) {
  database_ = must(Database::open(path, Database::Mode::create));
  must(database_.execute(
      "CREATE TABLE IF NOT EXISTS memory_blocks (block INTEGER PRIMARY KEY, content BLOB)"));
  auto rows = must(database_.prepare("SELECT block, content FROM memory_blocks"));
  while (must(rows.step())) newest_[static_cast<BlockId>(rows.integer(0))] = rows.blob(1);
  acknowledged_ = newest_;
  thread_ = std::thread([this] { run(); });
}

void MemoryDevice::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (auto* works : {&queue_, &held_writes_, &held_reads_}) works->clear();
}

void MemoryDevice::post(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void MemoryDevice::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

void MemoryDevice::read(BlockId block, std::function<void(Result<Bytes>)> done) {
  const auto answer = [this, block, done = std::move(done)] {
    std::unique_lock lock(mutex_);
    const bool fails = fail_reads_;
    lock.unlock();
    if (fails) return done(fail(Errc::corrupt, "block {} fails on demand", block));
    lock.lock();
    const auto found = newest_.find(block);
    Bytes content = found == newest_.end() ? Bytes(block_size_) : found->second;
    lock.unlock();
    done(std::move(content));
  };
  {
    const std::lock_guard lock(mutex_);
    ++counts_.reads;  // counted before the read that caused the read-ahead ends
  }
  post([this, answer] {
    std::unique_lock lock(mutex_);
    if (hold_reads_) {
      held_reads_.push_back(answer);
      changed_.notify_all();
      return;
    }
    lock.unlock();
    answer();
  });
}

void MemoryDevice::write(BlockId block, Bytes content, std::function<void(Status)> done) {
  {
    const std::lock_guard lock(mutex_);
    if (content.size() != block_size_ || !writing_.insert(block).second ||
        discarded_.contains(block))
      ++violations_;
  }
  const auto answer = [this, block, content, done = std::move(done)] {
    std::unique_lock lock(mutex_);
    writing_.erase(block);
    const bool fails = fail_writes_;
    const bool no_room = acknowledged_.size() >= most_ && !acknowledged_.contains(block);
    lock.unlock();
    if (fails) return done(fail(Errc::unreachable, "block {} fails on demand", block));
    if (no_room) return done(fail(Errc::disk_full, "no room for block {}", block));
    lock.lock();
    acknowledged_[block] = content;
    lock.unlock();
    uncommitted_[block] = content;
    done({});
  };
  post([this, block, content, answer] {
    std::unique_lock lock(mutex_);
    newest_[block] = content;
    ++counts_.writes;
    if (hold_writes_) {
      held_writes_.push_back(answer);
      changed_.notify_all();
      return;
    }
    lock.unlock();
    answer();
  });
}

void MemoryDevice::write_backup(BlockId block, Bytes content, std::function<void(Status)> done) {
  write(block, std::move(content), std::move(done));
}

std::map<BlockId, Bytes> MemoryDevice::acknowledged() const {
  const std::lock_guard lock(mutex_);
  return acknowledged_;
}

void MemoryDevice::discard(BlockId block) {
  {
    const std::lock_guard lock(mutex_);
    ++counts_.discards;
    if (writing_.contains(block)) ++violations_;
    discarded_.insert(block);
    newest_.erase(block);
  }
  post([this, block] {
    uncommitted_[block] = std::nullopt;
    const std::lock_guard lock(mutex_);
    acknowledged_.erase(block);
  });
}

void MemoryDevice::commit(std::function<void(Status)> done) {
  post([this, done = std::move(done)] { do_commit(done); });
}

void MemoryDevice::do_commit(const std::function<void(Status)>& done) {
  CommitParticipant* const participant = participant_;
  const auto participate = participant ? participant->snapshot() : nullptr;
  std::unique_lock lock(mutex_);
  const auto covered = discarded_;  // the deletion by their owners is part of this commit
  lock.unlock();
  const auto changes = std::exchange(uncommitted_, {});
  const Status outcome = write_changes(changes, participate);
  if (!outcome) uncommitted_.insert(changes.begin(), changes.end());
  lock.lock();
  ++counts_.commits;
  if (outcome)
    for (const BlockId block : covered) discarded_.erase(block);
  lock.unlock();
  if (participant) participant->committed(outcome);
  done(outcome);
}

Status MemoryDevice::write_changes(const std::map<BlockId, std::optional<Bytes>>& changes,
                                   const std::function<Status(Database&)>& participate) {
  std::unique_lock lock(mutex_);
  const bool fails = fail_commits_;
  lock.unlock();
  auto put = database_.prepare("INSERT OR REPLACE INTO memory_blocks VALUES (?, ?)");
  if (!put) return fail(put.error());
  auto erase = database_.prepare("DELETE FROM memory_blocks WHERE block = ?");
  if (!erase) return fail(erase.error());
  S3O_TRY(database_.begin());
  Status outcome;
  for (const auto& [block, content] : changes) {
    Statement& statement = content ? *put : *erase;
    statement.bind(0, static_cast<std::int64_t>(block));
    if (content) statement.bind(1, ByteSpan(*content));
    if (outcome) outcome = statement.run();
  }
  if (outcome && participate) outcome = participate(database_);
  if (outcome && fails) outcome = fail(Errc::failed, "the commit fails on demand");
  if (outcome) return database_.commit("commit");
  database_.rollback();
  return outcome;
}

std::vector<BlockId> MemoryDevice::mapped() {
  const std::lock_guard lock(mutex_);
  std::vector<BlockId> blocks;
  for (const auto& [block, content] : newest_) blocks.push_back(block);
  return blocks;
}

MemoryDevice::Counts MemoryDevice::counts() {
  const std::lock_guard lock(mutex_);
  return counts_;
}
unsigned MemoryDevice::violations() {
  const std::lock_guard lock(mutex_);
  return violations_;
}

void MemoryDevice::set_hold(bool& held, std::deque<Work>& works, bool hold) {
  {
    const std::lock_guard lock(mutex_);
    held = hold;
    if (!hold) {
      queue_.insert(queue_.end(), works.begin(), works.end());
      works.clear();
    }
  }
  changed_.notify_all();
}
void MemoryDevice::hold_writes(bool hold) { set_hold(hold_writes_, held_writes_, hold); }
void MemoryDevice::hold_reads(bool hold) { set_hold(hold_reads_, held_reads_, hold); }
void MemoryDevice::release_write() {
  {
    const std::lock_guard lock(mutex_);
    if (held_writes_.empty()) return;
    queue_.push_back(std::move(held_writes_.front()));
    held_writes_.pop_front();
  }
  changed_.notify_all();
}

void MemoryDevice::fill_up(bool full) {
  const std::lock_guard lock(mutex_);
  most_ = full ? acknowledged_.size() : std::numeric_limits<std::size_t>::max();
}
void MemoryDevice::fail_writes(bool fail) {
  const std::lock_guard lock(mutex_);
  fail_writes_ = fail;
}
void MemoryDevice::fail_reads(bool fail) {
  const std::lock_guard lock(mutex_);
  fail_reads_ = fail;
}
void MemoryDevice::fail_commits(bool fail) {
  const std::lock_guard lock(mutex_);
  fail_commits_ = fail;
}

bool MemoryDevice::wait_held(const std::deque<Work>& works, std::size_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return works.size() >= count; });
}
bool MemoryDevice::wait_held_writes(std::size_t count) { return wait_held(held_writes_, count); }
bool MemoryDevice::wait_held_reads(std::size_t count) { return wait_held(held_reads_, count); }

}  // namespace s3oram
