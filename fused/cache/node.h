// A file, directory or other inode in memory, and the blocks of it that are cached.
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

/// One block of a file in memory. Only DataCache changes it.
struct CachedBlock {
  Node* node = nullptr;    // null once truncated, removed or evicted: nobody finds it any more
  Node* former = nullptr;  // whose replaced content it belongs to, while its write is in flight
  std::uint64_t index = 0;
  Bytes data;                     // its size is the block's valid bytes; all beyond reads zero
  std::optional<BlockId> home;    // where it lies, or will (place.h)
  std::optional<BlockId> target;  // where the write in flight goes: `home`, or its next home
  std::size_t home_bytes = 0;     // of its extent
  bool owned = false;             // an extent names `home`
  bool loading = false;           // a read is in flight; `data` is empty until it ends
  Timing::Time loading_since{};   // when that read was asked for, or asked for afresh
  bool flushing = false;          // a write is in flight, of a copy
  bool dirty = false;             // `data` is newer than what lies, or is on its way, to the device
  bool moves_out = false;         // is to be written anew as soon as it is loaded
  bool again = false;             // write it again when the write in flight ends
  bool awaited = false;           // somebody waits for that
  std::uint32_t in_flight_valid = 0;  // of what is in flight; truncation lowers it
  std::uint64_t version = 0;          // counts changes of `data`
  std::uint64_t in_flight_version = 0, durable_version = 0;
  unsigned pins = 0;   // threads that wait for it; not evicted
  int load_error = 0;  // errno
  // Since when writing it fails, and when it may be tried again.
  std::optional<Timing::Time> failing_since;
  Timing::Time not_before{};
  int write_error = 0;     // errno
  unsigned no_room = 0;    // times that it failed for want of room, and no room was coming
  std::uint64_t seen = 0;  // contents that had settled when the write in flight began

  // What DataCache::account() has counted of it.
  std::size_t charged = 0, charged_dirty = 0, charged_room = 0;
  bool counted_unflushed = false, counted_new = false;
  std::list<std::shared_ptr<CachedBlock>>::iterator place, turn;
  std::list<std::shared_ptr<CachedBlock>>* list = nullptr;  // that `place` points into
  std::list<std::shared_ptr<CachedBlock>>* queue =
      nullptr;  // that `turn` points into, to be written

  bool unflushed() const { return dirty || flushing; }
  /// The device needs room for it: it is not written in place.
  bool needs_room() const { return unflushed() && !(owned && home && !is_packed(*home)); }
};

/// A file that was truncated to nothing and is written anew keeps its former content in the tables
/// until the new one may commit, so that a crash leaves one of the two. Meanwhile the extents of
/// the new content are these.
struct Replacement {
  std::map<std::uint64_t, ExtentRow> extents;
  std::uint64_t size = 0;  // as far as data is acknowledged
  Timing::Time since{};    // of the first truncation
  Timing::Time emptied{};  // of the latest
  bool closed = false;     // it is complete, and commits when all of it is acknowledged
  std::vector<std::shared_ptr<CachedBlock>> in_flight;  // of the former content
};

struct Node {
  Ino ino = 0;
  InodeRow row;             // what commits: its size and blocks count acknowledged data alone
  std::uint64_t size = 0;   // what users see
  std::uint64_t grown = 0;  // size up to which nothing but zeros need become durable
  bool unnamed = false;     // made without a name (O_TMPFILE), and may still get one
  std::int64_t shrunk = 0;  // of a directory, ns since 1970: since then no name has gone from it
  std::optional<std::size_t> xattr_names;  // how long their list is; nothing: not known
  bool no_room = false;                    // for some of its data, when last seen; see held_back()
  bool rewritten = false;                  // truncated to nothing, and not closed since
  std::optional<bool> lacks_extents;       // DataCache::is_hole() has looked
  std::optional<Replacement> replacement;

  std::map<std::uint64_t, std::shared_ptr<CachedBlock>> blocks;
  std::uint64_t unflushed = 0;   // of `blocks`, those dirty or in flight
  std::uint64_t new_blocks = 0;  // of `blocks`, those that no extent names yet

  // Sequential reading: the block after the last one read, and how far to read ahead.
  std::uint64_t next_read = 0;
  unsigned read_ahead = 0;
};

}  // namespace s3oram
