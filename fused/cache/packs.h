// Small pieces of several files in one block of the device.
//
// A piece is put behind those that came before it into the open pack, which is written anew with
// it, an access like any other; pieces that come while a write is in flight go together with the
// next. A place is given out once: what was written there stays as it is until the whole pack is
// free, so that extents that are committed, and those that never will be, find what they name.
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
  /// What a pack needs of its owner.
  struct Owner {
    std::function<BlockId()> take;                         // a free block
    std::function<void(BlockId)> free;                     // nothing names the block any more
    std::function<void(std::function<void()>)> with_lock;  // for callbacks of the device
  };

  /// `cached`: packs that were read and are kept in memory.
  Packs(BlockDevice& device, Owner owner, std::size_t cached);

  /// Whether a piece of so many bytes goes into a pack.
  bool takes(std::size_t bytes) const { return bytes > 0 && bytes <= block_size_ / 2; }

  /// Gives the piece its place; start() sends it. `written` is called with the lock.
  BlockId put(ByteSpan piece, Written written);
  /// Begins to write what was put.
  void start();

  /// The piece, if it is in memory.
  std::optional<Bytes> find(BlockId place, std::size_t bytes);
  /// Reads the pack. `read` gets the piece, with the lock.
  void read(BlockId place, std::size_t bytes, Read read);

  /// An extent names this place, or will: of what put() gives out it knows.
  void add(BlockId place, std::size_t bytes);
  /// No extent names the place any more, or ever will.
  void release(BlockId place, std::size_t bytes);
  /// A piece has become shorter.
  void shrink(BlockId place, std::size_t bytes);

  /// Packs of which less than a quarter is in use, at most `most`, if packs waste much altogether;
  /// none of them again before long, as what is there may not be movable.
  std::vector<BlockId> sparse(std::size_t most);

  /// Writes in flight.
  unsigned writing() const { return writing_; }
  std::size_t bytes_in_memory() const;
  /// Forgets the packs that were read.
  void drop_clean() { cache_.clear(); }

 private:
  struct Pack {
    BlockId block = 0;
    Bytes content;
    std::vector<Written> waiting;  // for a write that has not begun
    bool writing = false;
  };
  struct Uses {
    std::size_t pieces = 0, bytes = 0;
    std::uint64_t not_before = 0;  // a call of sparse()
  };
  void close();
  void write(const std::shared_ptr<Pack>& pack);
  void free_if_unused(BlockId block);
  /// A read of a pack, for all who wait for it.
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
  std::unordered_map<BlockId, Uses> uses_;            // of every pack
  std::size_t bytes_used_ = 0;
  std::uint64_t searches_ = 0;                  // calls of sparse()
  std::list<std::pair<BlockId, Bytes>> cache_;  // most recently used first
  std::map<BlockId, std::shared_ptr<Reading>> reading_;
  unsigned writing_ = 0;
};

}  // namespace s3oram
