// The write-back half of DataCache: from dirty blocks to acknowledged extents.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "fused/cache/data_cache.h"

namespace s3oram {

/// Queues the oldest dirty blocks until `in_flight` writes are under way.
void DataCache::want_oldest() {
  const std::size_t busy = writes() + queue_.size();
  std::size_t slots = options_.in_flight - std::min<std::size_t>(options_.in_flight, busy);
  for (const Handle& block : blocks_.dirty()) {
    if (slots == 0) break;
    if (block->queue) continue;
    want(block);
    --slots;
  }
  pump();
}

void DataCache::pump() {
  while (writes() < options_.in_flight) {
    const auto next = queue_.take();
    if (!next) break;
    start_write(next->block);
    awaited_piece_ |= next->awaited && is_packed(*next->block->target);
  }
  // Until a write starts, more pieces join the same pack.
  if (!queue_.has_awaited() && (queue_.empty() || awaited_piece_)) {
    packs.start();
    awaited_piece_ = false;
  }
}

/// Writes a block in place if it has a device block of its own. A block that lies in a pack, or
/// nowhere yet, gets a new place.
void DataCache::start_write(const Handle& block) {
  const auto done = [this, block](const Status& outcome) { written(block, outcome); };
  const bool own = block->home && !is_packed(*block->home);
  const bool packed = !own && packs.takes(block->data.size());
  if (own) {
    block->target = block->home;
  } else if (!packed) {
    block->target = numbers.take();
    if (!block->home) block->home = block->target;
  }
  block->dirty = false;
  block->flushing = true;
  block->in_flight_valid = static_cast<std::uint32_t>(block->data.size());
  block->in_flight_version = block->version;
  block->seen = settled_;
  blocks_.account(block);
  used_ = true;
  if (packed) {
    block->target = packs.put(block->data, done);
    if (!rule_holds(Rule::decide_never_waits)) record(block, *block->target);
    return;
  }
  Bytes content;
  content.reserve(block_size_);
  content = block->data;  // a copy, because users may change the block meanwhile
  content.resize(block_size_);
  ++writes_;
  if (!rule_holds(Rule::decide_never_waits)) record(block, *block->target);
  device_.write(*block->target, std::move(content), [this, done](Status outcome) {
    const Lock lock(mutex_);
    --writes_;
    done(outcome);
  });
}

/// Enters the block's extent into the metadata; the next commit contains it.
void DataCache::record(const Handle& block, BlockId place) {
  Node& node = *block->node;
  if (!block->owned && !node.replacement) ++node.row.blocks;
  block->owned = true;
  blocks_.account(block);
  extents.put(node, block->index, {place, block->in_flight_valid});
  metadata_.inodes.put(node.ino, node.row);
  extents.store_size(node, block->index * block_size_ + block->in_flight_valid);
}

/// Called when the write in flight has succeeded. Moves the block to its target; the caller records
/// the extent.
void DataCache::move_home(CachedBlock& block) {
  held.written(*block.target);
  const auto left = std::exchange(block.home, block.target);
  if (left && left != block.home) release(*left, block.home_bytes);
  block.home_bytes = block.in_flight_valid;
}

/// Handles the device's answer to a write. Only now may the extent, and the size that it gives the
/// file, commit.
void DataCache::written(const Handle& block, const Status& outcome) {
  used_ = true;
  block->flushing = false;
  if (block->former) {
    written_former(*block, outcome.has_value());
  } else if (!block->node) {
    release(*block->target, block->in_flight_valid);  // cutting the block off removed its extent
  } else if (outcome || !rule_holds(Rule::hold_writes)) {
    Node& node = *block->node;
    move_home(*block);
    block->durable_version = block->in_flight_version;
    block->failing_since.reset();
    block->write_error = 0;
    out_of_room_.reset();
    record(block, *block->home);
    if (node.replacement && node.replacement->closed && node.unflushed == 0) settle_or_tell(node);
  } else {
    const auto now = timing_.now();
    if (block->target != block->home) release(*block->target, block->in_flight_valid);
    block->write_error = to_errno(outcome.error());
    const bool full = block->write_error == ENOSPC;
    if (full) settle_or_tell(*block->node);  // frees the content that is being replaced
    block->dirty = true;
    if (!block->failing_since) block->failing_since = now;
    block->not_before = now + options_.retry;
    if (full && block->seen == settled_ && !room_is_held()) {
      ++block->no_room;
      out_of_room_ = now;
    }
    block->node->no_room |= full;
    queue_.failed(block);
    blocks_.account(block);
  }
  const bool awaited = std::exchange(block->awaited, false);
  if (std::exchange(block->again, false)) want(block, awaited);
  blocks_.evict();
  pump();
  waits.wake(outcome.has_value());
}

void DataCache::retry_failed() {
  queue_.retry(timing_.now());
  pump();
}

void DataCache::add_targets(Node& node, std::vector<Target>& targets) {
  if (node.unflushed == 0) return;
  for (const auto& [index, block] : node.blocks)
    if (block->unflushed()) targets.push_back({block, block->version, block->no_room});
}

/// Waits until every target is acknowledged, or is no longer part of a file.
PosixStatus DataCache::wait_durable(Lock& lock, const std::vector<Target>& targets, bool awaited) {
  for (const auto& [block, version, no_room] : targets)
    if (block->in_flight_version < version || !block->flushing) want(block, awaited);
  pump();
  auto left = targets.begin();
  const auto start = timing_.now();
  int error = 0;
  const bool in_time = waits.until(lock, [&] {
    while (left != targets.end() &&
           (!left->block->node || left->block->durable_version >= left->version))
      ++left;
    if (left == targets.end()) return true;
    // A block that has been failing for the deadline is given up at its next failure. If there is
    // no room, it is given up at the second failure, because the first makes the device look for
    // room.
    const CachedBlock& block = *left->block;
    const auto failed_at = block.not_before - options_.retry;
    if (block.no_room - left->no_room >= 2)
      error = ENOSPC;
    else if (block.failing_since && failed_at > start &&
             failed_at - *block.failing_since >= options_.deadline)
      error = block.write_error;
    return error != 0;
  });
  if (!in_time) error = left->block->write_error != 0 ? left->block->write_error : EIO;
  if (error != 0) return posix_error(error);
  return {};
}

PosixStatus DataCache::flush(Lock& lock, const std::vector<std::shared_ptr<Node>>& nodes,
                             bool awaited) {
  std::vector<Target> targets;
  for (const auto& node : nodes) add_targets(*node, targets);
  S3O_POSIX_TRY(wait_durable(lock, targets, awaited));
  for (const auto& node : nodes)
    if (node->row.nlink > 0 || keeps_unlinked) extents.store_size(*node, node->grown);
  return {};
}

void DataCache::start_flush(Node& node) {
  if (node.unflushed == 0) return;
  for (const auto& [index, block] : node.blocks) want(block);
  pump();
}

}  // namespace s3oram
