// The contents of files: a cache of whole blocks with write-back and read-ahead between file
// operations and the device. It decides what an operation costs in accesses:
//   - reading a hole, truncating, punching whole blocks and removing a file: none;
//   - writing: none until the block is flushed, then one, however often it was written;
//   - writing part of a block that is not cached and holds other bytes: one to read it first.
// Pieces of at most half a block (small files, and the tails of others) lie together in packs
// (packs.h), so that pieces flushed together, or read soon after each other, share their accesses.
//
// A block's extent, and the size it gives its file, enter the metadata when the device has
// acknowledged its write, never before. If a file is truncated to nothing and written again, its
// new extents and size all enter together, when the file is closed or flushed. A file that stays
// open longer than the commit interval gets those that are there by then, and the others as they
// come. Data whose write fails stays dirty, and is written again later.
//
// Threads: `mutex` guards the cache, the metadata and the nodes. Operations are called with it
// locked and release it while they wait; callbacks of the device take it briefly. Lock order:
// `mutex`, then whatever the device locks inside its methods, which never call back.
#pragma once

#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "fused/cache/block_numbers.h"
#include "fused/cache/cached_blocks.h"
#include "fused/cache/device_wait.h"
#include "fused/cache/file_extents.h"
#include "fused/cache/flush_queue.h"
#include "fused/cache/packs.h"
#include "fused/cache/posix.h"
#include "fused/cache/timing.h"
#include "fused/tables/held_blocks.h"
#include "fused/tables/metadata.h"
#include "oramcore/base/rules.h"

namespace s3oram {

struct CacheOptions {
  std::size_t limit = 256u << 20;              // bytes in memory; half of them may be dirty
  unsigned in_flight = 64;                     // writes at a time
  unsigned read_ahead = 32;                    // blocks
  std::chrono::milliseconds deadline{20'000};  // without progress; then the operation fails
  std::chrono::milliseconds retry{1'000};      // pause before a failed write is retried
  Timing* timing = &system_timing();
  /// Returns the bytes for which the device has or can find room. Called under the lock for every
  /// new block.
  std::function<std::uint64_t()> free_bytes = [] { return std::uint64_t{1} << 50; };
};

/// It is wide because reading, writing, truncating and flushing change one block's state under one
/// lock; CachedBlocks, Packs and FileExtents hold what could be separated.
class DataCache {
 public:
  DataCache(std::mutex& mutex, BlockDevice& device, Metadata& metadata,
            const CacheOptions& options);

  // Data operations. The lock is held at entry and exit, and released while waiting.

  /// Returns the number of bytes read: fewer than asked at the end of the file.
  Posix<std::size_t> read(Lock& lock, Node& node, std::uint64_t offset, MutableByteSpan out);
  /// `taken`: the kernel has already accepted the data from the program, so an error would lose it.
  /// Such data is kept dirty even if the device has no room; see held_back().
  PosixStatus write(Lock& lock, Node& node, std::uint64_t offset, ByteSpan in, bool taken);
  /// Returns whether data of the node waits for room on the device.
  bool held_back(Node& node) const;
  /// Makes [offset, offset + length) read zero; the file keeps its size. Whole blocks are freed.
  PosixStatus punch(Lock& lock, Node& node, std::uint64_t offset, std::uint64_t length);
  /// Sets the file's size.
  PosixStatus truncate(Node& node, std::uint64_t size);
  /// Turns at most `most` blocks from `index` on into holes, and advances `index` past them.
  /// Returns whether the file may have more blocks.
  Posix<bool> free_blocks(Node& node, std::uint64_t& index, std::size_t most);
  /// Does what lseek(2) does with SEEK_DATA (if `data`) or SEEK_HOLE from `offset`, which lies
  /// inside the file.
  Posix<std::uint64_t> seek(Node& node, std::uint64_t offset, bool data);

  /// Waits until the device has acknowledged everything written to these nodes so far. The next
  /// commit then contains that data and the sizes, except contents that replace others (see
  /// settle()). `awaited` writes go before those flushed in the background.
  PosixStatus flush(Lock& lock, const std::vector<std::shared_ptr<Node>>& nodes, bool awaited);
  /// If the node's content replaces another, enters as much of it as is acknowledged into the
  /// metadata; the next commit contains it.
  PosixStatus settle(Node& node);
  /// Calls settle(). Logs a failure; the content then waits for a later call.
  void settle_or_tell(Node& node);
  /// Called when the node's content is complete. If the content replaces another, flushes and
  /// settles it.
  PosixStatus complete(Node& node);
  /// Begins to flush the node, without waiting.
  void start_flush(Node& node);
  std::uint64_t blocks_of(const Node& node) const {
    return (node.replacement ? node.replacement->extents.size() : node.row.blocks) +
           node.new_blocks;
  }
  /// Returns the bytes that the node takes on the device, in whole sectors of 512 bytes, because a
  /// small last piece takes less than a block.
  std::uint64_t bytes_of(const Node& node) const;
  /// Returns how many bytes of the range lie in existing blocks.
  Posix<std::uint64_t> bytes_within(Node& node, std::uint64_t offset, std::uint64_t length);
  /// If block `index` lies in this pack, moves it out by writing it again. Does not wait.
  PosixStatus move_out(Node& node, std::uint64_t index, BlockId pack);
  /// Drops the node's blocks that are not dirty.
  void drop_clean(Node& node) { blocks_.drop_clean(node); }

  /// Retries failed writes whose pause is over.
  void retry_failed();
  bool has_failed() const { return queue_.has_failed(); }
  /// Returns whether some node's content replaces another.
  bool has_replacements() const { return replacing_ > 0; }
  /// Returns whether the device was used since the last call.
  bool take_used() { return std::exchange(used_, false); }

  /// Returns whether freed blocks still take up room that a backup would release. If so, asks for a
  /// backup. (While tables are damaged, no backup can be made.)
  bool room_is_held() {
    const bool held_back = numbers.uncovered() > 0 && !metadata_.damage.any();
    if (held_back && want_backup) want_backup();
    return held_back;
  }
  /// Asks for a backup. Called with the lock; does not wait.
  std::function<void()> want_backup;

  bool keeps_unlinked = false;  // flush() makes unlinked files durable, too
  BlockNumbers numbers;
  HeldBlocks held;
  Packs packs;
  FileExtents extents;
  DeviceWait waits;  // also used by other classes that wait for the device
  std::size_t bytes() const { return blocks_.bytes(); }
  std::size_t dirty_bytes() const { return blocks_.dirty_bytes(); }
  std::size_t limit() const { return blocks_.limit(); }
  /// Sets the limit, and evicts clean blocks above it.
  void set_limit(std::size_t bytes);
  /// Returns how many bytes of room the device must find for data that waits to be written.
  std::uint64_t room_bytes() const { return blocks_.room_bytes(); }
  /// Returns how many bytes stay free on a device that counts as full.
  std::uint64_t spare_bytes() const { return kSpareBlocks * block_size_; }
  std::uint32_t block_size() const { return block_size_; }
  /// Returns the number of writes and reads in flight. The device may call back while there are
  /// any.
  unsigned in_flight() const { return writes() + reads_; }

 private:
  static constexpr std::uint64_t kSpareBlocks = 16;
  using Handle = CachedBlocks::Handle;
  /// A version of a block that is to become durable. `no_room` is the block's count when the wait
  /// began.
  struct Target {
    Handle block;
    std::uint64_t version;
    unsigned no_room;
  };

  bool is_full() const;
  Posix<Handle> ready_block(Lock& lock, Node& node, std::uint64_t index);
  Posix<Handle> block_to_write(Lock& lock, Node& node, std::uint64_t index, std::uint32_t from,
                               std::uint32_t to, bool taken);
  PosixStatus wait_for_room(Lock& lock, Node& node, std::uint64_t index);
  PosixStatus load(Node& node, std::uint64_t index);
  /// `by_device`: whether the content came from the device, which therefore made progress.
  void loaded(const Handle& block, Result<Bytes> content, bool by_device = true);
  void read_ahead(Node& node, std::uint64_t first, std::uint64_t last);

  // data_replace.cc
  void replace(Node& node);
  void written_former(CachedBlock& block, bool succeeded);

  PosixStatus forget(Node& node, std::uint64_t index);
  PosixStatus lower_valid(Node& node, std::uint64_t index, std::uint32_t valid);
  /// Returns the first block >= `index` that holds bytes, and how many it holds; std::nullopt if
  /// there is none.
  Posix<std::optional<std::pair<std::uint64_t, std::uint32_t>>> next_block(Node& node,
                                                                           std::uint64_t index);

  void changed(const Handle& block);
  void want(const Handle& block, bool awaited = false) {
    queue_.want(block, awaited, timing_.now());
  }
  void want_oldest();
  void pump();
  void start_write(const Handle& block);
  void record(const Handle& block, BlockId place);
  void move_home(CachedBlock& block);
  void written(const Handle& block, const Status& outcome);
  PosixStatus wait_durable(Lock& lock, const std::vector<Target>& targets, bool awaited);
  void add_targets(Node& node, std::vector<Target>& targets);
  /// Frees a place. If it lies in a pack, gives `bytes` of it back.
  void release(BlockId place, std::size_t bytes);
  void free_block(BlockId block);

  std::mutex& mutex_;
  BlockDevice& device_;
  Metadata& metadata_;
  const CacheOptions options_;
  Timing& timing_;
  const std::uint32_t block_size_;

  CachedBlocks blocks_;
  FlushQueue queue_;                 // written as soon as fewer writes are in flight
  unsigned writes_ = 0, reads_ = 0;  // transfers of whole blocks under way
  unsigned writes() const { return writes_ + packs.writing(); }
  bool awaited_piece_ = false;  // a caller waits for a piece in the pack being filled
  std::size_t replacing_ = 0;   // nodes with a replacement
  std::uint64_t settled_ = 0;   // number of contents that took the place of others
  bool used_ = false;
  std::optional<Timing::Time> out_of_room_;  // when a write last found no room; reset by a success
};

}  // namespace s3oram
