// The write-back half of DataCache: from dirty blocks to acknowledged extents.
#include <algorithm>

#include "fused/data_cache.h"

namespace s3oram {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

/// Puts the block into the queue, if it is dirty and not on its way.
void DataCache::want(const Handle& block) {
  if (!block->node || !block->dirty || block->queued) return;
  if (block->flushing) {
    block->again = true;
    return;
  }
  if (Clock::now() < block->not_before) return;  // retry_failed() will
  block->queued = true;
  queue_.push_back(block);
}

/// Fills the device with the blocks that were dirty first.
void DataCache::want_oldest() {
  std::size_t slots =
      options_.in_flight - std::min<std::size_t>(options_.in_flight, writes_ + queue_.size());
  for (const Handle& block : dirty_) {
    if (slots == 0) break;
    if (block->queued) continue;
    want(block);
    --slots;
  }
  pump();
}

void DataCache::pump() {
  while (writes_ < options_.in_flight && !queue_.empty()) {
    const Handle block = std::move(queue_.front());
    queue_.pop_front();
    block->queued = false;
    if (block->node && block->dirty && !block->flushing) start_write(block);
  }
}

void DataCache::start_write(const Handle& block) {
  if (!block->home) block->home = numbers.take();
  block->dirty = false;
  block->flushing = true;
  block->in_flight_valid = static_cast<std::uint32_t>(block->data.size());
  block->in_flight_version = block->version;
  account(block);
  Bytes content;
  content.reserve(block_size_);
  content = block->data;  // a copy: users may change the block meanwhile
  content.resize(block_size_);
  ++writes_;
  used_ = true;
  device_.write(*block->home, std::move(content), [this, block](Status outcome) {
    const Lock lock(mutex_);
    written(block, outcome);
  });
}

/// The device's answer. Only now the extent, and the size that it gives the file, may commit.
void DataCache::written(const Handle& block, const Status& outcome) {
  --writes_;
  used_ = true;
  block->flushing = false;
  if (!block->node) {
    release(*block->home);  // its extent went when it was cut off
  } else if (outcome) {
    Node& node = *block->node;
    held.written(*block->home);
    if (!block->owned) ++node.row.blocks;
    block->owned = true;
    block->durable_version = block->in_flight_version;
    block->failing_since.reset();
    block->write_error = 0;
    account(block);
    metadata_.extents.put({node.ino, block->index}, {*block->home, block->in_flight_valid});
    const std::uint64_t end = block->index * block_size_ + block->in_flight_valid;
    node.row.size =
        node.unflushed == 0 ? node.size : std::max(node.row.size, std::min(node.size, end));
    metadata_.inodes.put(node.ino, node.row);
  } else {
    const auto now = Clock::now();
    block->dirty = true;
    if (!block->failing_since) block->failing_since = now;
    block->not_before = now + options_.retry;
    block->write_error = to_errno(outcome.error());
    failed_.push_back(block);
    account(block);
  }
  if (std::exchange(block->again, false)) want(block);
  evict();
  pump();
  wake(outcome.has_value());
}

void DataCache::retry_failed() {
  const auto now = Clock::now();
  for (auto at = failed_.begin(); at != failed_.end();) {
    const auto next = std::next(at);
    if ((*at)->not_before <= now) {
      want(*at);
      failed_.erase(at);
    }
    at = next;
  }
  pump();
}

void DataCache::add_targets(Node& node, std::vector<Target>& targets) {
  if (node.unflushed == 0) return;
  for (const auto& [index, block] : node.blocks)
    if (block->unflushed()) targets.emplace_back(block, block->version);
}

/// Waits until every target is acknowledged, or no longer part of a file.
PosixStatus DataCache::wait_durable(Lock& lock, const std::vector<Target>& targets) {
  for (const auto& [block, version] : targets)
    if (block->in_flight_version < version || !block->flushing) want(block);
  pump();
  auto left = targets.begin();
  const auto start = Clock::now();
  int error = 0;
  const bool in_time = wait(lock, [&] {
    while (left != targets.end() &&
           (!left->first->node || left->first->durable_version >= left->second))
      ++left;
    if (left == targets.end()) return true;
    // A block that fails for so long is given up when it fails once more.
    const CachedBlock& block = *left->first;
    const auto failed_at = block.not_before - options_.retry;
    if (block.failing_since && failed_at >= start &&
        failed_at - *block.failing_since >= options_.deadline)
      error = block.write_error;
    return error != 0;
  });
  if (!in_time) error = left->first->write_error != 0 ? left->first->write_error : EIO;
  if (error != 0) return posix_error(error);
  return {};
}

PosixStatus DataCache::flush(Lock& lock, Node& node) {
  std::vector<Target> targets;
  add_targets(node, targets);
  const std::uint64_t size = node.size;
  S3O_POSIX_TRY(wait_durable(lock, targets));
  // A size that grew by truncation has no block of its own that could bring it along.
  const std::uint64_t stable = std::max(node.row.size, std::min(size, node.size));
  if (stable != node.row.size) {
    node.row.size = stable;
    metadata_.inodes.put(node.ino, node.row);
  }
  return {};
}

PosixStatus DataCache::flush_all(Lock& lock, const std::vector<Node*>& nodes) {
  std::vector<Target> targets;
  for (Node* node : nodes) add_targets(*node, targets);
  return wait_durable(lock, targets);
}

void DataCache::start_flush(Node& node) {
  if (node.unflushed == 0) return;
  for (const auto& [index, block] : node.blocks) want(block);
  pump();
}

}  // namespace s3oram
