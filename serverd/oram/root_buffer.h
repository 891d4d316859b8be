// The root's slots for new writes, as a server keeps them in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/protocol/plan.h"
#include "serverd/oram/eviction.h"
#include "serverd/store/bucket_store.h"

namespace s3oram {

/// Used on one executor; not thread-safe. Readers of a slot keep its old content when it is
/// replaced.
class RootBuffer {
 public:
  struct Slot {
    std::shared_ptr<const Bytes> content;
    std::uint64_t stamp = 0;    // the access that wrote it; 0 if never written, or lost
    std::uint64_t durable = 0;  // the access whose write is known to be durable
  };

  /// `self` is used in messages.
  explicit RootBuffer(Party self) : self_(self) {}

  /// Reads `count` slots of the store, and syncs it.
  Status open(BucketStore& store, std::size_t count);
  std::size_t size() const { return slots_.size(); }
  Slot& operator[](std::size_t slot) { return slots_[slot]; }
  const Slot& operator[](std::size_t slot) const { return slots_[slot]; }

  /// Puts a share into a slot, only in memory.
  void keep(std::uint16_t slot, Bytes share, std::uint64_t stamp);
  /// Errors: corrupt (the slot's write is lost).
  Status check(std::size_t slot) const;
  /// Returns the root writes that `path` covers. Errors: corrupt (one of them is lost).
  Result<BucketRows> rows(const PathSlots& path) const;

  // `known` are the accesses that the client knows to be acknowledged, from root write `first` on;
  // `every` is the number of root writes of an eviction.

  /// Marks slots as damaged if they do not hold what the client knows.
  void distrust(WriteNumber first, unsigned every, const std::vector<std::uint64_t>& known);
  /// Counts all root writes as lost, except those that the client knows.
  void keep_only(WriteNumber first, unsigned every, const std::vector<std::uint64_t>& known);

 private:
  const Party self_;
  std::vector<Slot> slots_;
};

}  // namespace s3oram
