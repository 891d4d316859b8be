// A file, directory or other inode in memory, and its cached blocks.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "fused/cache/timing.h"
#include "fused/tables/place.h"
#include "fused/tables/rows.h"
#include "oramcore/base/bytes.h"

namespace s3oram {

struct Node;

/// One block of a file in memory. Only DataCache and its parts change it. It is wide because it is
/// a record: each phase of a block's life (loading, waiting, in flight, failing, counted) has its
/// few fields.
struct CachedBlock {
  Node* node = nullptr;    // null once truncated, removed or evicted
  Node* former = nullptr;  // the node whose replaced content this is, while a write is in flight
  std::uint64_t index = 0;
  Bytes data;                     // its size is the block's valid bytes; all others read as zero
  std::optional<BlockId> home;    // where it lies, or will lie (place.h)
  std::optional<BlockId> target;  // where the write in flight goes: `home`, or its next home
  std::size_t home_bytes = 0;     // valid bytes of its extent
  bool owned = false;             // an extent names `home`
  bool loading = false;           // a read is in flight; `data` is empty until it ends
  bool flushing = false;          // a write of a copy is in flight
  bool dirty = false;             // `data` is newer than what the device has, or is being sent
  bool moves_out = false;         // must be written again once loaded, to leave its pack
  bool again = false;             // write it again when the write in flight ends
  bool awaited = false;           // an operation waits for that second write
  std::uint32_t in_flight_valid = 0;  // valid bytes of the data in flight; truncation lowers it
  std::uint64_t version = 0;          // counts changes of `data`
  std::uint64_t in_flight_version = 0, durable_version = 0;
  unsigned pins = 0;   // threads that wait for the block; it is not evicted meanwhile
  int load_error = 0;  // errno
  // When a reader began to wait for the block; see DeviceWait::counts_from().
  std::optional<Timing::Time> awaited_since;
  // The times at which writing the block first failed, and from which the write may be retried.
  std::optional<Timing::Time> failing_since;
  Timing::Time not_before{};
  int write_error = 0;     // errno
  unsigned no_room = 0;    // failures because the device was full and no room was coming
  std::uint64_t seen = 0;  // DataCache::settled_ when the write in flight began

  // The bytes that CachedBlocks::account() has counted for this block.
  std::size_t charged = 0, charged_dirty = 0, charged_room = 0;
  bool counted_unflushed = false, counted_new = false;
  std::list<std::shared_ptr<CachedBlock>>::iterator place, turn;
  std::list<std::shared_ptr<CachedBlock>>* list = nullptr;  // `place` points into it
  std::list<std::shared_ptr<CachedBlock>>* queue =
      nullptr;  // `turn` points into it; the block waits to be written

  bool unflushed() const { return dirty || flushing; }
  /// Returns whether the device needs room for the block, because it is not written in place.
  bool needs_room() const { return unflushed() && !(owned && home && !is_packed(*home)); }
};

/// The new content of a file that was truncated to nothing and is being written again. The tables
/// keep the old content until the new one may commit, so that a crash leaves one of the two.
struct Replacement {
  std::map<std::uint64_t, ExtentRow> extents;
  std::uint64_t size = 0;  // size of acknowledged data only
  Timing::Time since{};    // the first truncation
  Timing::Time emptied{};  // the latest truncation
  bool closed = false;     // the content is complete, and commits when all of it is acknowledged
  std::vector<std::shared_ptr<CachedBlock>> in_flight;  // blocks of the old content
};

struct Node {
  Ino ino = 0;
  InodeRow row;             // what commits: `size` and `blocks` count only acknowledged data
  std::uint64_t size = 0;   // the size that users see
  std::uint64_t grown = 0;  // the file may durably grow to here by zeros alone
  bool unnamed = false;     // created without a name (O_TMPFILE), and may still get one
  std::int64_t shrunk = 0;  // no name has left this directory since; ns since 1970
  std::optional<std::size_t> xattr_names;  // bytes of their list; std::nullopt if not known
  bool no_room = false;                    // some data found no room; see held_back()
  bool rewritten = false;                  // truncated to nothing, and not closed since
  std::optional<bool> lacks_extents;       // what FileExtents found
  std::optional<Replacement> replacement;

  std::map<std::uint64_t, std::shared_ptr<CachedBlock>> blocks;
  std::uint64_t unflushed = 0;   // how many of `blocks` are dirty or in flight
  std::uint64_t new_blocks = 0;  // how many of `blocks` no extent names yet

  // Sequential reading: the block after the last one read, and how far to read ahead.
  std::uint64_t next_read = 0;
  unsigned read_ahead = 0;
};

}  // namespace s3oram
