// The top of the tree, at the client: the file top.cache, slots of sealed blocks. Its content is
// also in the server's log, so nothing is synced before a write is acknowledged. After a power cut,
// the slots written since the last sync() are read from the log again (docs/durability.md).
//
// Slots are taken and given back in memory. A slot that was given back is used again only after the
// commit that freed it (Rule::cache_after_commit), because until then a power cut brings back the
// block that it held. Nor is it used again while a read of it is under way.
//
// One executor; not thread-safe, except for is_whole(), read(), write() and sync().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "oramcore/base/file.h"
#include "oramcore/base/random.h"

namespace s3oram::ring {

using CacheSlot = std::uint32_t;

class TopCache {
 public:
  TopCache(std::unique_ptr<File> file, std::size_t slot_size)
      : file_(std::move(file)), slot_size_(slot_size) {}

  // Marks a slot as in use. Call it before anything else.
  void use(CacheSlot slot);

  /// Returns a slot that is not in use. There is always one, because the file grows if necessary.
  CacheSlot take();
  /// Gives back a slot whose block is no longer here as of the next commit, once nobody holds it.
  void give_back(CacheSlot slot);
  /// Keeps the content of a slot in use until let_go(), which must be called as often.
  void hold(CacheSlot slot) { ++holders_[slot]; }
  void let_go(CacheSlot slot);
  /// begin_commit() returns the slots that were given back and that a commit beginning now frees;
  /// the caller then reports whether that commit succeeded.
  std::set<CacheSlot> begin_commit() { return std::exchange(given_back_, {}); }
  /// Marks a slot that cannot be written as in use, so that it is not taken again while the file is
  /// open.
  void avoid(CacheSlot slot) { bad_.insert(slot); }
  void committed(std::set<CacheSlot> freed);
  void not_committed(std::set<CacheSlot> freed) { given_back_.merge(freed); }

  std::size_t in_use() const { return used_.size() - free_.size(); }

  /// Returns whether the file is long enough for all slots in use, which it is not if it is gone.
  Result<bool> has_all_in_use();
  Status reserve(std::uint64_t slots) { return file_->reserve(slots * slot_size_); }
  /// Returns a random slot, used or not.
  CacheSlot any(Random& random) const;

  Result<Bytes> read(CacheSlot slot);
  Status write(CacheSlot slot, ByteSpan sealed);
  Status sync() { return file_->sync(); }

 private:
  const std::unique_ptr<File> file_;
  const std::size_t slot_size_;
  std::vector<bool> used_;
  std::set<CacheSlot> free_, given_back_, bad_;
  std::map<CacheSlot, unsigned> holders_;
  std::set<CacheSlot> left_;  // slots among these to be given back afterwards
};

}  // namespace s3oram::ring
