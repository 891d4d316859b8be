// Packs: each holds small pieces of several files in one block of the device.
//
// A new piece is appended to the open pack, which is then written again as a whole, in one access;
// pieces that arrive while a write is in flight share the next one. A place is given out once: its
// content does not change until the whole pack is free, so that committed extents, and those that a
// crash brings back, find what they name.
//
// Not thread-safe: DataCache's lock guards it. Callbacks of the device take that lock themselves.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "fused/tables/place.h"

namespace s3oram {

class Packs {
 public:
  using Written = std::function<void(const Status&)>;
  using Read = std::function<void(Result<Bytes>)>;
  /// The functions that packs need from their owner.
  struct Owner {
    std::function<BlockId()> take;                         // takes a free block
    std::function<void(BlockId)> free;                     // frees a block that nothing names
    std::function<void(std::function<void()>)> with_lock;  // calls back under the owner's lock
  };

  /// `cached` is the number of packs that stay in memory after they were read.
  Packs(BlockDevice& device, Owner owner, std::size_t cached);

  /// Returns whether a piece of `bytes` goes into a pack.
  bool takes(std::size_t bytes) const { return bytes > 0 && bytes <= block_size_ / 2; }

  /// Appends the piece and returns its place; start() sends it. `written` is called with the lock.
  BlockId put(ByteSpan piece, Written written);
  /// Begins to write the pieces that were appended.
  void start();

  /// Returns the piece if it is in memory; std::nullopt otherwise.
  std::optional<Bytes> find(BlockId place, std::size_t bytes);
  /// Reads the pack. `read` is called with the piece, under the lock.
  void read(BlockId place, std::size_t bytes, Read read);

  /// Counts an extent that names this place, unless put() returned it: put() counts its places
  /// itself.
  void add(BlockId place, std::size_t bytes);
  /// Takes back a place that no extent names, or will name.
  void release(BlockId place, std::size_t bytes);
  /// Takes back the last `bytes` of a piece.
  void shrink(BlockId place, std::size_t bytes);

  /// Returns at most `most` packs of which less than a quarter is in use; none if there are only a
  /// few packs, or if more than half of all their bytes are in use. Does not return the same pack
  /// again for a while, because its pieces may not be movable.
  std::vector<BlockId> sparse(std::size_t most);

  /// Returns the number of writes in flight.
  unsigned writing() const { return writing_; }
  std::size_t bytes_in_memory() const;
  /// Drops the packs that were read.
  void drop_clean() { cache_.clear(); }

 private:
  struct Pack {
    BlockId block = 0;
    Bytes content;
    std::vector<Written> waiting;  // callbacks of pieces whose write has not begun
    bool writing = false;
  };
  struct Uses {
    std::size_t pieces = 0, bytes = 0;
    std::uint64_t not_before = 0;  // the call of sparse() that may return it again
  };
  void close();
  void write(const std::shared_ptr<Pack>& pack);
  void free_if_unused(BlockId block);
  /// A read of a pack, shared by all callers that wait for it.
  struct Reading {
    std::vector<std::function<void(const Result<Bytes>&)>> readers;
  };
  static Bytes piece_of(const Bytes& content, BlockId place, std::size_t bytes);
  void remember(BlockId block, Bytes content);

  BlockDevice& device_;
  const Owner owner_;
  const std::size_t block_size_, most_cached_;
  std::shared_ptr<Pack> open_;
  std::map<BlockId, std::shared_ptr<Pack>> packing_;  // open, or not yet written
  std::unordered_map<BlockId, Uses> uses_;            // how much of every pack is in use
  std::size_t bytes_used_ = 0;
  std::uint64_t searches_ = 0;                  // calls of sparse()
  std::list<std::pair<BlockId, Bytes>> cache_;  // most recently used first
  std::map<BlockId, std::shared_ptr<Reading>> reading_;
  unsigned writing_ = 0;
};

}  // namespace s3oram
