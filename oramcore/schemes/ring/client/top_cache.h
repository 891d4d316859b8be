// The top of the tree, at the client: the file top.cache, slots of sealed blocks. What it holds is
// in the server's log too, so nothing here is synced before a write is acknowledged: after a power
// cut the slots written since the last sync() are read from the log again (docs/durability.md).
//
// Slots are taken and given back in memory. A slot that was given back is used again only after the
// commit that freed it (Rule::cache_after_commit): until then a power cut brings back the block
// that lay there.
//
// One executor; not thread-safe, but for is_whole(), read(), write() and sync().
#pragma once

#include <cstdint>
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

  // Once, before anything else: the slots in use.
  void use(CacheSlot slot);

  /// A slot that nothing uses. There is always one: the file grows if it must.
  CacheSlot take();
  /// Its block is gone from here, by the next commit.
  void give_back(CacheSlot slot) { given_back_.insert(slot); }
  /// What was given back and is going to be free by a commit that begins now; and that it has
  /// succeeded, or not.
  std::set<CacheSlot> begin_commit() { return std::exchange(given_back_, {}); }
  /// A slot in use that cannot be written: nobody gets it again while the file is open.
  void avoid(CacheSlot slot) { bad_.insert(slot); }
  void committed(std::set<CacheSlot> freed);
  void not_committed(std::set<CacheSlot> freed) { given_back_.merge(freed); }

  std::size_t in_use() const { return used_.size() - free_.size(); }

  /// Whether the file is as long as the slots in use need: it is not if it is gone.
  Result<bool> has_all_in_use();
  Status reserve(std::uint64_t slots) { return file_->reserve(slots * slot_size_); }
  /// Any slot, used or not.
  CacheSlot any(Random& random) const;

  Result<Bytes> read(CacheSlot slot);
  Status write(CacheSlot slot, ByteSpan sealed);
  Status sync() { return file_->sync(); }

 private:
  const std::unique_ptr<File> file_;
  const std::size_t slot_size_;
  std::vector<bool> used_;
  std::set<CacheSlot> free_, given_back_, bad_;
};

}  // namespace s3oram::ring
