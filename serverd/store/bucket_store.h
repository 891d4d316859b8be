// Slots on disk. The file `slots` begins with the root's 2A slots for new writes, written in place
// one by one; then comes an array of frames of Z slots; a bucket version is a frame, written once,
// beside the old ones. Each slot is followed by a stamp (which access, or which attempt at an
// eviction, wrote it) and a checksum over slot, stamp, place and owner. A frame in memory has
// been checked: what another server wrote, or this one at another time, is as damaged as what a
// disk has changed.
//
// Frames are cached up to a bound. Paths are random, so a bucket is asked for half as often as its
// parent: of the frames in the cache the deepest go first, and of one level the least recently
// used.
//
// Thread-safe: called from the pools.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"
#include "oramcore/base/file.h"
#include "oramcore/base/log_limit.h"

namespace s3oram {

using BucketVersionNumber = std::uint32_t;  // 0 is no frame
/// To name a slot of the root's writes: not read or written as a whole.
constexpr BucketVersionNumber kRootBuffer = 0;

using Stamp = std::optional<std::uint64_t>;  // nothing: not known, not checked

/// A bucket's content: the first `slots` slots of a frame, written under `stamp`; the others are
/// zero. An untouched bucket has no frame and is zero altogether: zeros are a consistent sharing of
/// zero.
struct BucketVersionRef {
  BucketVersionNumber bucket_version = 0;
  std::uint16_t slots = 0;
  Stamp stamp{};
  friend bool operator==(const BucketVersionRef&, const BucketVersionRef&) = default;
};

/// A frame in memory, laid out as on disk.
class BucketVersion {
 public:
  static constexpr std::size_t kTrailer = 16;  // stamp, checksum

  BucketVersion(std::size_t slots, std::size_t slot_size);
  std::uint8_t* slot(std::size_t at) { return bytes_.get() + at * stride_; }
  const std::uint8_t* slot(std::size_t at) const { return bytes_.get() + at * stride_; }
  MutableByteSpan bytes() { return {bytes_.get(), slots_ * stride_}; }
  std::size_t stride() const { return stride_; }

 private:
  std::size_t slots_;
  std::size_t stride_;
  std::unique_ptr<std::uint8_t[]> bytes_;
};

/// Frames out of use, for the next ones: all are of one size, and among other blocks of the
/// allocator's they would leave gaps. It holds as many as were in use at once since it was cleared.
/// Thread-safe.
class VersionPool {
 public:
  VersionPool(std::size_t slots, std::size_t slot_size) : slots_(slots), slot_size_(slot_size) {}
  /// Holds anything. It comes back when nobody uses it any more; the pool may be gone by then.
  static std::shared_ptr<BucketVersion> take(const std::shared_ptr<VersionPool>& pool);
  /// Frees the frames out of use.
  void clear();

 private:
  const std::size_t slots_, slot_size_;
  std::mutex mutex_;  // guards free_; no other lock is taken under it
  std::vector<std::unique_ptr<BucketVersion>> free_;
};

class BucketStore {
 public:
  /// `owner`: whose slots these are; empty in stores of format 2, which did not say. The cache
  /// keeps so many bytes of frames, but always four frames.
  BucketStore(std::unique_ptr<File> file, ByteSpan owner, std::size_t root_buffer_slots,
              std::size_t slots_per_bucket_version, std::size_t slot_size, std::size_t cache_bytes);

  /// The frame with its first slots checked (the others hold anything); it is a bucket of this
  /// level of the tree. One request to the disk, unless it is cached. Errors: corrupt, naming the
  /// frame and the slot.
  Result<std::shared_ptr<const BucketVersion>> read(const BucketVersionRef& ref,
                                                    unsigned level = 0);

  /// The same for whoever changes it: a frame of their own, which the cache does not keep. Of
  /// frame 0 one that holds anything.
  Result<std::shared_ptr<BucketVersion>> copy(const BucketVersionRef& ref);

  /// Whether read() would not ask the disk now.
  bool cached(const BucketVersionRef& ref);

  /// So many bytes of a frame wait for the disk at a time: whatever else is to be durable on the
  /// same disk, a retrieval's intent too, stands behind them.
  static constexpr std::size_t kMostUnderWay = 512 << 10;

  /// Writes a whole frame with `stamp` on every slot, for a bucket of this level; not yet durable.
  Status write(BucketVersionNumber bucket_version, std::shared_ptr<BucketVersion> content,
               std::uint64_t stamp, unsigned level = 0);

  /// Writes one slot of a frame or of the ring; not yet durable.
  Status write_slot(BucketVersionNumber bucket_version, std::size_t slot, ByteSpan content,
                    std::uint64_t stamp);

  /// The stamp of a slot and its content, or nothing if it was never (or only half) written, or not
  /// under `stamp`. Errors: failed, damaged_vault (still_there()).
  struct StampedSlot {
    std::uint64_t stamp;
    Bytes content;
  };
  Result<std::optional<StampedSlot>> read_slot(BucketVersionNumber bucket_version, std::size_t slot,
                                               Stamp stamp = {});

  /// Whether the slot was written by somebody else, or at another time: it has another stamp, or it
  /// is one of these owners'. A slot that has rotted, or cannot be read, is not foreign: most
  /// likely it still has its stamp.
  bool is_foreign(BucketVersionNumber bucket_version, std::size_t slot, Stamp stamp,
                  const std::vector<Bytes>& others);

  /// Which of the frame's first slots are damaged on disk. Errors: damaged_vault (still_there()).
  Result<std::vector<std::uint16_t>> damaged(const BucketVersionRef& ref);

  /// What was written would be lost with a file that the name does not lead to any more.
  Status sync() {
    S3O_TRY(still_there());
    return told(file_->sync());
  }
  /// File::still_there().
  Status still_there() { return told(file_->still_there()); }
  /// Where the first slots of the frame end in the file.
  std::uint64_t end_of(BucketVersionNumber bucket_version, std::size_t slots) const {
    return offset(bucket_version, slots);
  }
  /// Frames 1 to `frames` never lack room on the disk from now on. Errors: disk_full.
  Status reserve(std::uint64_t bucket_versions) {
    return file_->reserve(bytes_of(bucket_versions));
  }
  /// How large the file is with so many frames.
  std::uint64_t bytes_of(std::uint64_t bucket_versions) const {
    return (root_buffer_slots_ + bucket_versions * slots_) * stride_;
  }
  /// How many frames the disk has room for, with those that are there.
  std::uint64_t possible_bucket_versions() const;
  /// The cache keeps so many bytes of frames from now on, and memory for no others.
  void set_cache_bytes(std::size_t bytes);
  /// Its content is of no use any more: it leaves the cache.
  void forget(BucketVersionNumber bucket_version);

 private:
  struct Cached {
    std::shared_ptr<const BucketVersion> bucket_version;
    std::size_t checked;  // how many slots
    unsigned level;
    std::list<BucketVersionNumber>::iterator use;
  };
  /// The same; an error is logged, because the owner of the disk has no other way to know.
  Status told(Status of_disk);
  void seal(BucketVersionNumber bucket_version, std::size_t slot, std::uint8_t* bytes,
            std::uint64_t stamp) const;
  bool intact(BucketVersionNumber bucket_version, std::size_t slot, const std::uint8_t* bytes,
              Stamp stamp) const;
  std::uint64_t checksum(BucketVersionNumber bucket_version, std::size_t slot,
                         const std::uint8_t* bytes, std::uint64_t salt) const;
  std::uint64_t offset(BucketVersionNumber bucket_version, std::size_t slot) const;
  // With the mutex held:
  Cached* find(const BucketVersionRef& ref);
  void remember(BucketVersionNumber bucket_version, std::shared_ptr<const BucketVersion> content,
                std::size_t checked, unsigned level);
  void touch(Cached& cached, unsigned level);
  void evict();
  std::size_t bucket_versions_in(std::size_t bytes) const {
    return std::max<std::size_t>(4, bytes / (slots_ * stride_));
  }

  tl::unexpected<Error> damage(std::string what);
  /// From the disk, which is asked once more if it cannot read.
  Status read(std::uint64_t at, MutableByteSpan out);
  /// The same, checked.
  Result<std::shared_ptr<BucketVersion>> load(const BucketVersionRef& ref);

  const std::unique_ptr<File> file_;
  const std::uint64_t salt_;
  const std::size_t root_buffer_slots_;
  const std::size_t slots_;
  const std::size_t slot_size_;
  const std::size_t stride_;
  const std::shared_ptr<VersionPool> pool_;

  std::mutex mutex_;  // guards the cache; no other lock is taken under it
  std::unordered_map<BucketVersionNumber, Cached> cache_;
  std::map<unsigned, std::list<BucketVersionNumber>> uses_;  // by level; least recently used first
  std::size_t cache_bucket_versions_;
  std::uint64_t changes_ = 0;  // frames written or forgotten
  LogLimit told_of_disk_;
};

}  // namespace s3oram
