// Slots on disk. The file `slots` begins with the root buffer, 2A slots for new writes, which are
// written in place one by one. An array of bucket versions of Z slots follows. A bucket version is
// written once, beside the old ones. Each slot is followed by a stamp (the access, or the attempt
// at an eviction, that wrote it) and a checksum over slot, stamp, place and owner. A bucket version
// in memory has been checked: slots that another server wrote, or that this server wrote at another
// time, count as damaged, like slots that the disk has changed.
//
// A bounded number of bucket versions is cached. Paths are random, so a bucket is read half as
// often as its parent: the cache drops the deepest first, and within a level the least recently
// used.
//
// Thread-safe, because it is called from the pools.
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
#include "serverd/store/disk_watch.h"

namespace s3oram {

using BucketVersionNumber = std::uint32_t;  // 0 is none
/// Names a slot of the root buffer, which is never read or written as a whole.
constexpr BucketVersionNumber kRootBuffer = 0;

using Stamp = std::optional<std::uint64_t>;  // empty if not known, and then not checked

/// A bucket's content: the first `slots` slots of a bucket version, written under `stamp`. The
/// other slots are zero. An untouched bucket has no version and is all zero, because zeros are a
/// consistent sharing of zero.
struct BucketVersionRef {
  BucketVersionNumber bucket_version = 0;
  std::uint16_t slots = 0;
  Stamp stamp{};
  friend bool operator==(const BucketVersionRef&, const BucketVersionRef&) = default;
};

/// A bucket version in memory, laid out as on disk.
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

/// Keeps the memory of bucket versions for later ones, because all have the same size and would
/// leave gaps among the allocator's other blocks. Holds as many as were in use at the same time
/// since the pool was cleared. Thread-safe.
class VersionPool {
 public:
  VersionPool(std::size_t slots, std::size_t slot_size) : slots_(slots), slot_size_(slot_size) {}
  /// Returns a bucket version with arbitrary content. Its memory returns to the pool with the last
  /// reference, which also keeps the pool alive.
  static std::shared_ptr<BucketVersion> take(const std::shared_ptr<VersionPool>& pool);
  /// Frees the memory that is not in use.
  void clear();

 private:
  const std::size_t slots_, slot_size_;
  std::mutex mutex_;  // guards free_; no other lock is taken under it
  std::vector<std::unique_ptr<BucketVersion>> free_;
};

/// It is wide because the file, its cache and its checks are used under the same locks.
class BucketStore {
 public:
  /// `owner` says whose slots these are; it is empty for stores of format 2, which do not record an
  /// owner. The cache keeps `cache_bytes` of bucket versions, but at least four versions.
  BucketStore(std::unique_ptr<File> file, ByteSpan owner, std::size_t root_buffer_slots,
              std::size_t slots_per_bucket_version, std::size_t slot_size, std::size_t cache_bytes);

  /// Returns a bucket version with its first slots checked (the others may hold anything). `level`
  /// is the bucket's level in the tree. One request to the disk, unless it is cached. Errors:
  /// corrupt (names the bucket version and the slot), damaged_vault (still_there()).
  Result<std::shared_ptr<const BucketVersion>> read(const BucketVersionRef& ref,
                                                    unsigned level = 0);

  /// Returns a copy that the caller may change and that the cache does not keep. For number 0, its
  /// content is arbitrary.
  Result<std::shared_ptr<BucketVersion>> copy(const BucketVersionRef& ref);

  /// Reads like read(), but always from the file, and without caching the result.
  Result<std::shared_ptr<BucketVersion>> load(const BucketVersionRef& ref);

  /// Caches a bucket version whose first slots the caller has restored, although the disk may lack
  /// one of them. The version must be in use.
  void keep(const BucketVersionRef& ref, std::shared_ptr<const BucketVersion> content,
            unsigned level);

  /// Returns whether read() would now find the bucket version in the cache.
  bool cached(const BucketVersionRef& ref);

  /// The most bytes of a bucket version that wait for the disk at a time. Anything else that must
  /// become durable on the same disk, such as a retrieval's access record, waits behind them.
  static constexpr std::size_t kMostUnderWay = 512 << 10;

  /// Writes a whole bucket version, for a bucket of this level, with `stamp` on every slot. Not yet
  /// durable.
  Status write(BucketVersionNumber bucket_version, std::shared_ptr<BucketVersion> content,
               std::uint64_t stamp, unsigned level = 0);

  /// Writes one slot of a bucket version or of the root buffer. Not yet durable.
  Status write_slot(BucketVersionNumber bucket_version, std::size_t slot, ByteSpan content,
                    std::uint64_t stamp);

  /// Makes a slot of a bucket version count as damaged. Not yet durable.
  Status clear_slot(BucketVersionNumber bucket_version, std::size_t slot);

  /// Returns a slot's stamp and content; std::nullopt if the slot was never (or only half) written,
  /// or not under `stamp`. Errors: failed, damaged_vault (still_there()).
  struct StampedSlot {
    std::uint64_t stamp;
    Bytes content;
  };
  Result<std::optional<StampedSlot>> read_slot(BucketVersionNumber bucket_version, std::size_t slot,
                                               Stamp stamp = {});

  /// Returns whether another server wrote the slot, or this server at another time: the slot has
  /// another stamp, or belongs to one of the owners `others`. A slot that has rotted or cannot be
  /// read is not foreign, because most likely its stamp is still right.
  bool is_foreign(BucketVersionNumber bucket_version, std::size_t slot, Stamp stamp,
                  const std::vector<Bytes>& others);

  /// Returns which of the first slots are damaged on disk. Errors: damaged_vault (still_there()).
  Result<std::vector<std::uint16_t>> damaged(const BucketVersionRef& ref);

  /// Makes all writes durable. Fails if the file's name no longer leads to it, because the writes
  /// would be lost.
  Status sync() {
    S3O_TRY(still_there());
    const DiskWatch::Operation operation(watch_);
    return told(file_->sync());
  }
  /// Returns how long the disk has been working on its oldest request; zero if it is idle.
  DiskWatch::Clock::duration busy_for() const { return watch_.busy_for(); }
  /// Calls File::still_there().
  Status still_there() { return told(file_->still_there()); }
  /// Returns where a bucket version's first `slots` slots end in the file.
  std::uint64_t end_of(BucketVersionNumber bucket_version, std::size_t slots) const {
    return offset(bucket_version, slots);
  }
  /// Reserves room on the disk for the bucket versions 1 to `bucket_versions`. Errors: disk_full.
  Status reserve(std::uint64_t bucket_versions) {
    return file_->reserve(bytes_of(bucket_versions));
  }
  /// Returns the size of the file with `bucket_versions` versions.
  std::uint64_t bytes_of(std::uint64_t bucket_versions) const {
    return (root_buffer_slots_ + bucket_versions * slots_) * stride_;
  }
  /// Returns how many bucket versions the disk has room for, including those that exist.
  std::uint64_t possible_bucket_versions() const;
  /// Changes the size of the cache, and frees memory that is not in use.
  void set_cache_bytes(std::size_t bytes);
  /// Drops a bucket version from the cache.
  void forget(BucketVersionNumber bucket_version);

 private:
  struct Cached {
    std::shared_ptr<const BucketVersion> bucket_version;
    std::size_t checked;  // how many of its first slots were checked
    unsigned level;
    std::list<BucketVersionNumber>::iterator use;
  };
  /// Returns the status. Logs an error, because the disk's owner has no other way to learn of it.
  Status told(Status of_disk);
  Status write_bytes(std::uint64_t at, ByteSpan bytes);
  void write_out(std::uint64_t at, std::size_t bytes);
  void seal(BucketVersionNumber bucket_version, std::size_t slot, std::uint8_t* bytes,
            std::uint64_t stamp) const;
  bool intact(BucketVersionNumber bucket_version, std::size_t slot, const std::uint8_t* bytes,
              Stamp stamp) const;
  std::uint64_t checksum(BucketVersionNumber bucket_version, std::size_t slot,
                         const std::uint8_t* bytes, std::uint64_t salt) const;
  std::uint64_t offset(BucketVersionNumber bucket_version, std::size_t slot) const;
  // Called with the mutex held:
  Cached* find(const BucketVersionRef& ref);
  void remember(BucketVersionNumber bucket_version, std::shared_ptr<const BucketVersion> content,
                std::size_t checked, unsigned level);
  void touch(Cached& cached, unsigned level);
  void evict();
  std::size_t bucket_versions_in(std::size_t bytes) const {
    return std::max<std::size_t>(4, bytes / (slots_ * stride_));
  }

  tl::unexpected<Error> damage(std::string what);
  /// Reads from the disk, and tries once more if that fails.
  Status read(std::uint64_t at, MutableByteSpan out);

  const std::unique_ptr<File> file_;
  const std::uint64_t salt_;
  const std::size_t root_buffer_slots_;
  const std::size_t slots_;
  const std::size_t slot_size_;
  const std::size_t stride_;
  const std::shared_ptr<VersionPool> pool_;
  DiskWatch watch_;

  std::mutex mutex_;  // guards the cache; no other lock is taken under it
  std::unordered_map<BucketVersionNumber, Cached> cache_;
  std::map<unsigned, std::list<BucketVersionNumber>> uses_;  // by level; least recently used first
  std::size_t cache_bucket_versions_;
  std::uint64_t changes_ = 0;  // bucket versions written or forgotten
  LogLimit told_of_disk_;
};

}  // namespace s3oram
