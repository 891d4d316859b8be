// The read half of DataCache, its bookkeeping, and the operations that remove data from files.
#include "fused/cache/data_cache.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace s3oram {
namespace {

/// Returns how many packs stay in memory after they were read: a share of the cache's limit.
std::size_t packs_in_memory(const CacheOptions& options, std::uint32_t block_size) {
  return std::max<std::size_t>(2, options.limit / 16 / block_size);
}

}  // namespace

DataCache::DataCache(std::mutex& mutex, BlockDevice& device, Metadata& metadata,
                     const CacheOptions& options)
    : packs(device,
            {.take = [this] { return numbers.take(); },
             .free = [this](BlockId block) { free_block(block); },
             .with_lock =
                 [this](const std::function<void()>& work) {
                   const Lock lock(mutex_);
                   work();
                 }},
            packs_in_memory(options, device.block_size())),
      extents(metadata, held, device.block_size()),
      waits(
          *options.timing, options.deadline, options.retry, [&device] { return device.steps(); },
          [this] { retry_failed(); }),
      mutex_(mutex),
      device_(device),
      metadata_(metadata),
      options_(options),
      timing_(*options.timing),
      block_size_(device.block_size()),
      blocks_(packs, device.block_size(), options.limit) {}

void DataCache::set_limit(std::size_t bytes) {
  blocks_.set_limit(bytes);
  blocks_.evict();
  waits.wake(false);  // a wait for room may be over
}

// ---- reading -----------------------------------------------------------------------------------

/// Begins to read the block if it is neither cached nor a hole.
PosixStatus DataCache::load(Node& node, std::uint64_t index) {
  if (node.blocks.contains(index)) return {};
  S3O_POSIX_GET(extent, extents.find(node, index));
  if (!extent) return extents.need_hole(node, index);
  if (!held.good(extent->block)) return extents.lost(node, index, extent->block);
  const Handle block = blocks_.add(node, index);
  block->home = extent->block;
  block->home_bytes = extent->valid;
  block->owned = block->loading = true;
  block->in_flight_valid = extent->valid;
  blocks_.account(block);
  blocks_.evict();
  const auto done = [this, block](Result<Bytes> content) { loaded(block, std::move(content)); };
  ++reads_;
  if (is_packed(extent->block)) {
    if (auto piece = packs.find(extent->block, extent->valid)) {
      loaded(block, std::move(*piece), false);
      return {};
    }
    packs.read(extent->block, extent->valid, done);
  } else {
    device_.read(extent->block, [this, done](Result<Bytes> content) {
      const Lock lock(mutex_);
      done(std::move(content));
    });
  }
  used_ = true;
  return {};
}

void DataCache::loaded(const Handle& block, Result<Bytes> content, bool by_device) {
  --reads_;
  block->loading = false;
  if (content) {
    block->data = std::move(*content);
    if (rule_holds(Rule::valid_bytes))
      block->data.resize(std::min<std::size_t>(block->data.size(), block->in_flight_valid));
    if (block->data.size() < block_size_ / 2) block->data.shrink_to_fit();
    if (block->node) {
      blocks_.account(block);
      if (std::exchange(block->moves_out, false)) changed(block);
    }
    waits.wake(by_device);
    return;
  }
  block->load_error = to_errno(content.error());
  if (block->node) blocks_.cut_off(block);
  waits.wake(false);
}

std::uint64_t DataCache::bytes_of(const Node& node) const {
  constexpr std::uint64_t kSector = 512;
  const std::uint64_t blocks = blocks_of(node), tail = node.size % block_size_;
  if (blocks == 0 || !packs.takes(tail)) return blocks * block_size_;
  const std::uint64_t last = node.size / block_size_;
  if (blocks <= last && !node.blocks.contains(last)) {  // it has holes; the end may be one
    const auto extent = extents.find(node, last);
    if (extent && !*extent) return blocks * block_size_;
  }
  return (blocks - 1) * block_size_ + (tail + kSector - 1) / kSector * kSector;
}

PosixStatus DataCache::move_out(Node& node, std::uint64_t index, BlockId pack) {
  S3O_POSIX_GET(extent, extents.find(node, index));
  if (!extent || !is_packed(extent->block) || block_of(extent->block) != pack) return {};
  S3O_POSIX_TRY(load(node, index));
  const Handle block = node.blocks.at(index);
  if (block->loading)
    block->moves_out = true;
  else if (!block->unflushed())
    changed(block);
  return {};
}

/// Returns the block with its data, or null for a hole. The lock is not released between finding
/// the block and returning it.
Posix<DataCache::Handle> DataCache::ready_block(Lock& lock, Node& node, std::uint64_t index) {
  while (true) {
    S3O_POSIX_TRY(load(node, index));
    const auto found = node.blocks.find(index);
    if (found == node.blocks.end()) return Handle();
    const Handle block = found->second;
    if (!block->loading) {
      blocks_.used(block);
      return block;
    }
    ++block->pins;
    const auto since = waits.counts_from(block->awaited_since);
    const bool in_time = waits.until_since(since, lock, [&] { return !block->loading; });
    --block->pins;
    if (!in_time) return posix_error(EIO);
    if (block->load_error != 0) return posix_error(block->load_error);
  }
}

/// Called after a request for blocks [first, last]. Doubles the window while requests follow each
/// other (the kernel's own read-ahead may deliver neighbours out of order), and begins to fill it.
void DataCache::read_ahead(Node& node, std::uint64_t first, std::uint64_t last) {
  const bool follows = first + 2 >= node.next_read && first <= node.next_read + 1;
  if (!follows) {
    node.read_ahead = 0;
    node.next_read = last + 1;
    return;
  }
  if (last < node.next_read) return;
  const bool begins = node.next_read == 0;  // a single request is no sequence yet
  node.next_read = last + 1;
  const auto affordable = static_cast<unsigned>(limit() / 8 / block_size_);
  const unsigned most = std::min(options_.read_ahead, affordable);
  node.read_ahead = begins ? 0 : std::min(most, std::max(2u, node.read_ahead * 2));
  if (node.size == 0) return;
  const std::uint64_t end = std::min(last + node.read_ahead, (node.size - 1) / block_size_);
  // Errors are ignored here, because a reader of the block will get them.
  for (std::uint64_t index = last + 1; index <= end && load(node, index); ++index) continue;
}

Posix<std::size_t> DataCache::read(Lock& lock, Node& node, std::uint64_t offset,
                                   MutableByteSpan out) {
  if (offset >= node.size || out.empty()) return 0;
  const std::uint64_t end = std::min(node.size, offset + out.size());
  const std::uint64_t first = offset / block_size_, last = (end - 1) / block_size_;
  for (std::uint64_t index = first; index <= last; ++index) S3O_POSIX_TRY(load(node, index));
  read_ahead(node, first, last);
  for (std::uint64_t index = first; index <= last; ++index) {
    const std::uint64_t start = std::max(offset, index * block_size_);
    const std::uint64_t stop = std::min(end, (index + 1) * block_size_);
    auto* target = out.data() + (start - offset);
    S3O_POSIX_GET(block, ready_block(lock, node, index));
    const std::size_t from = start % block_size_, length = stop - start;
    const std::size_t have =
        block && block->data.size() > from ? std::min(length, block->data.size() - from) : 0;
    if (have > 0) std::memcpy(target, block->data.data() + from, have);
    std::memset(target + have, 0, length - have);
  }
  return static_cast<std::size_t>(end - offset);
}

// ---- writing -----------------------------------------------------------------------------------

/// Bounds dirty data: waits for flushes, unless the block is already dirty.
PosixStatus DataCache::wait_for_room(Lock& lock, Node& node, std::uint64_t index) {
  const auto has_room = [&] {
    const auto found = node.blocks.find(index);
    return blocks_.dirty_memory() < limit() / 2 ||
           (found != node.blocks.end() && found->second->dirty);
  };
  const auto start = timing_.now();
  int error = EIO;
  const bool ended = waits.until(lock, [&] {
    if (has_room()) {
      error = 0;
      return true;
    }
    want_oldest();
    const auto& dirty = blocks_.dirty();
    if (!dirty.empty() && dirty.front()->write_error != 0) error = dirty.front()->write_error;
    // If the device has been full since this wait began, waiting longer does not help.
    if (!out_of_room_ || *out_of_room_ < start) return false;
    error = ENOSPC;
    return true;
  });
  return ended && error == 0 ? PosixStatus() : posix_error(error);
}

/// Returns whether the device has no room for a block that has no place yet.
bool DataCache::is_full() const {
  return options_.free_bytes() < room_bytes() + spare_bytes() + block_size_;
}

bool DataCache::held_back(Node& node) const {
  if (!node.no_room) return false;
  node.no_room = std::ranges::any_of(node.blocks, [full = is_full()](const auto& entry) {
    const CachedBlock& block = *entry.second;
    return block.needs_room() && (full || block.write_error == ENOSPC);
  });
  return node.no_room;
}

/// Returns the block into which bytes [from, to) may be copied.
Posix<DataCache::Handle> DataCache::block_to_write(Lock& lock, Node& node, std::uint64_t index,
                                                   std::uint32_t from, std::uint32_t to,
                                                   bool taken) {
  S3O_POSIX_TRY(wait_for_room(lock, node, index));
  bool whole_hole = false;
  if (!node.blocks.contains(index)) {
    S3O_POSIX_GET(extent, extents.find(node, index));
    if (extent && from == 0 && to >= extent->valid) {  // none of the old content remains
      const Handle block = blocks_.add(node, index);
      if (held.good(extent->block)) {
        block->home = extent->block;
        block->home_bytes = extent->valid;
      }
      block->owned = extent->block != kImpossibleBlock;  // see FileExtents::erase()
      return block;
    }
    whole_hole = !extent && from == 0 && to == block_size_;
  }
  if (!whole_hole) {  // a block that is written whole need not be read
    S3O_POSIX_GET(block, ready_block(lock, node, index));
    if (block) return block;
  }
  if (is_full()) S3O_POSIX_TRY(settle(node));
  if (is_full() && room_is_held()) {
    // Another thread may have made the block during the wait.
    const bool in_time = waits.until(lock, [&] { return !is_full() || !room_is_held(); });
    if (!in_time) return posix_error(EIO);
    return block_to_write(lock, node, index, from, to, taken);
  }
  if (is_full()) {
    device_.look_for_room();
    if (!taken) return posix_error(ENOSPC);  // now, rather than when the block is flushed
    node.no_room = true;
  }
  return blocks_.add(node, index);
}

/// Called after each change of `data`.
void DataCache::changed(const Handle& block) {
  ++block->version;
  block->dirty = true;
  blocks_.account(block);
  blocks_.evict();
}

PosixStatus DataCache::write(Lock& lock, Node& node, std::uint64_t offset, ByteSpan in,
                             bool taken) {
  const std::uint64_t end = offset + in.size();
  for (std::uint64_t start = offset; start < end;) {
    const std::uint64_t index = start / block_size_;
    const std::uint64_t stop = std::min(end, (index + 1) * block_size_);
    const auto from = static_cast<std::uint32_t>(start % block_size_);
    const auto to = static_cast<std::uint32_t>(stop - index * block_size_);
    S3O_POSIX_GET(block, block_to_write(lock, node, index, from, to, taken));
    if (block->data.size() < to) block->data.resize(to);
    std::memcpy(block->data.data() + from, in.data() + (start - offset), to - from);
    node.size = std::max(node.size, stop);
    changed(block);
    start = stop;
  }
  if (blocks_.dirty_memory() > limit() / 8) want_oldest();
  return {};
}

// ---- less data ---------------------------------------------------------------------------------

void DataCache::release(BlockId place, std::size_t bytes) {
  if (is_packed(place))
    packs.release(place, bytes);
  else
    free_block(place);
}

void DataCache::free_block(BlockId block) {
  used_ = true;
  held.released(block);
  if (numbers.release(block)) device_.discard(block);
}

/// Turns the block into a hole.
PosixStatus DataCache::forget(Node& node, std::uint64_t index) {
  S3O_POSIX_GET(extent, extents.find(node, index));
  std::optional<BlockId> home;
  std::size_t bytes = 0;
  if (extent) {
    extents.erase(node, index, *extent);
    if (held.good(extent->block)) home = extent->block;
    bytes = extent->valid;
  }
  if (const auto found = node.blocks.find(index); found != node.blocks.end()) {
    const Handle block = found->second;
    if (!home) home = block->home;
    node.grown = std::max(node.grown, index * block_size_ + block->data.size());
    blocks_.cut_off(block);
    // written() releases the target, when the write in flight has ended.
    if (block->flushing && home == block->target) return {};
  }
  if (home) release(*home, bytes);
  return {};
}

/// Makes everything in the block from byte `valid` (> 0) on read as zero.
PosixStatus DataCache::lower_valid(Node& node, std::uint64_t index, std::uint32_t valid) {
  S3O_POSIX_GET(extent, extents.find(node, index));
  // A damaged row cannot be corrected, but it need not be if the block is cached and written again.
  if (!extent || extent->block == kImpossibleBlock) {
    if (!node.blocks.contains(index))
      S3O_POSIX_TRY(extent ? extents.lost(node, index, extent->block)
                           : extents.need_hole(node, index));
  } else if (extent->valid > valid) {
    extents.put(node, index, {extent->block, valid});
    if (is_packed(extent->block)) packs.shrink(extent->block, extent->valid - valid);
  }
  if (const auto found = node.blocks.find(index); found != node.blocks.end()) {
    CachedBlock& block = *found->second;
    node.grown = std::max(node.grown, index * block_size_ + block.data.size());
    if (block.flushing && is_packed(*block.target) && block.in_flight_valid > valid)
      packs.shrink(*block.target, block.in_flight_valid - valid);
    block.in_flight_valid = std::min(block.in_flight_valid, valid);
    block.home_bytes = std::min<std::size_t>(block.home_bytes, valid);
    if (block.data.size() > valid) block.data.resize(valid);
  }
  return {};
}

Posix<std::optional<std::pair<std::uint64_t, std::uint32_t>>> DataCache::next_block(
    Node& node, std::uint64_t index) {
  std::optional<std::pair<std::uint64_t, std::uint32_t>> next;
  S3O_POSIX_GET(extent, extents.next(node, index));
  if (extent) next.emplace(extent->first, extent->second.valid);
  const auto cached = node.blocks.lower_bound(index);
  if (cached != node.blocks.end() && !cached->second->loading &&
      (!next || cached->first <= next->first))
    next.emplace(cached->first, static_cast<std::uint32_t>(cached->second->data.size()));
  return next;
}

Posix<std::uint64_t> DataCache::bytes_within(Node& node, std::uint64_t offset,
                                             std::uint64_t length) {
  std::uint64_t bytes = 0;
  for (std::uint64_t index = offset / block_size_, end = offset + length;; ++index) {
    S3O_POSIX_GET(next, next_block(node, index));
    if (!next || next->first * block_size_ >= end) return bytes;
    index = next->first;
    const std::uint64_t base = index * block_size_;
    bytes += std::min(end, base + block_size_) - std::max(offset, base);
  }
}

PosixStatus DataCache::punch(Lock& lock, Node& node, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t end = offset + length;
  for (std::uint64_t index = offset / block_size_;; ++index) {
    S3O_POSIX_GET(next, next_block(node, index));
    if (!next || next->first * block_size_ >= end) break;
    index = next->first;
    const std::uint64_t base = index * block_size_;
    const auto from = static_cast<std::uint32_t>(offset > base ? offset - base : 0);
    const auto to = static_cast<std::uint32_t>(std::min<std::uint64_t>(end - base, block_size_));
    if (from >= next->second) continue;
    // The committed content is cut immediately only if it is what users see. Otherwise a crash
    // would leave neither the old nor the new content.
    const auto cached = node.blocks.find(index);
    const bool is_newer = cached != node.blocks.end() && cached->second->unflushed();
    if (to >= next->second && (from == 0 || !is_newer)) {
      S3O_POSIX_TRY(from == 0 ? forget(node, index) : lower_valid(node, index, from));
      continue;
    }
    S3O_POSIX_TRY(wait_for_room(lock, node, index));
    S3O_POSIX_GET(block, ready_block(lock, node, index));
    if (!block || block->data.size() <= from) continue;
    if (to >= block->data.size()) {
      node.grown = std::max(node.grown, base + block->data.size());
      block->data.resize(from);
    } else {
      std::fill(block->data.begin() + from, block->data.begin() + to, 0);
    }
    changed(block);
  }
  extents.store_size(node);
  return {};
}

Posix<bool> DataCache::free_blocks(Node& node, std::uint64_t& index, std::size_t most) {
  for (; most > 0; --most) {
    S3O_POSIX_GET(next, next_block(node, index));
    if (!next) return false;
    S3O_POSIX_TRY(forget(node, next->first));
    index = next->first + 1;
  }
  return true;
}

PosixStatus DataCache::truncate(Node& node, std::uint64_t size) {
  if (size == 0 && !node.replacement && node.size > 0 && node.row.nlink > 0 &&
      rule_holds(Rule::rename_flush))
    replace(node);
  if (size == 0 && node.replacement) {
    node.replacement->emptied = timing_.now();
    node.replacement->closed = false;
  }
  if (size < node.size) {
    const std::uint64_t whole = size / block_size_;
    const auto tail = static_cast<std::uint32_t>(size % block_size_);
    if (tail > 0) S3O_POSIX_TRY(lower_valid(node, whole, tail));
    std::uint64_t next = whole + (tail > 0);
    S3O_POSIX_TRY(free_blocks(node, next, std::numeric_limits<std::size_t>::max()));
  }
  node.grown = size > node.size ? size : std::min(node.grown, size);
  node.size = size;
  extents.store_size(node);
  return {};
}

Posix<std::uint64_t> DataCache::seek(Node& node, std::uint64_t offset, bool data) {
  while (offset < node.size) {
    S3O_POSIX_GET(next, next_block(node, offset / block_size_));
    if (!next || next->first > offset / block_size_)
      S3O_POSIX_TRY(extents.need_hole(node, offset / block_size_));
    if (!next) break;
    const std::uint64_t base = next->first * block_size_, end = base + next->second;
    if (data) {
      if (offset < end && std::max(base, offset) < node.size) return std::max(base, offset);
      offset = base + block_size_;
    } else {
      if (offset < base || end <= offset) return offset;
      offset = end;
      if (next->second < block_size_) return std::min(offset, node.size);
    }
  }
  if (data) return posix_error(ENXIO);
  return std::min(offset, node.size);
}

}  // namespace s3oram
