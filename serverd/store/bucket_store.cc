// Reads, checks, caches and writes bucket versions in the file `slots`.
#include "serverd/store/bucket_store.h"

#define XXH_INLINE_ALL
#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

std::uint64_t salt_of(ByteSpan owner) {
  return owner.empty() ? 0 : XXH3_64bits(owner.data(), owner.size());
}

bool is_lost(const Status& file) { return !file && file.error().code == Errc::damaged_vault; }

}  // namespace

BucketVersion::BucketVersion(std::size_t slots, std::size_t slot_size)
    : slots_(slots),
      stride_(slot_size + kTrailer),
      bytes_(std::make_unique_for_overwrite<std::uint8_t[]>(slots * stride_)) {}

std::shared_ptr<BucketVersion> VersionPool::take(const std::shared_ptr<VersionPool>& pool) {
  std::unique_ptr<BucketVersion> bucket_version;
  {
    std::lock_guard lock(pool->mutex_);
    if (!pool->free_.empty()) {
      bucket_version = std::move(pool->free_.back());
      pool->free_.pop_back();
    }
  }
  if (!bucket_version)
    bucket_version = std::make_unique<BucketVersion>(pool->slots_, pool->slot_size_);
  return {bucket_version.release(), [pool](BucketVersion* used) {
            std::unique_ptr<BucketVersion> back(used);
            std::lock_guard lock(pool->mutex_);
            pool->free_.push_back(std::move(back));
          }};
}

void VersionPool::clear() {
  std::lock_guard lock(mutex_);
  free_.clear();
}

BucketStore::BucketStore(std::unique_ptr<File> file, ByteSpan owner, std::size_t root_buffer_slots,
                         std::size_t slots_per_bucket_version, std::size_t slot_size,
                         std::size_t cache_bytes)
    : file_(std::move(file)),
      salt_(salt_of(owner)),
      root_buffer_slots_(root_buffer_slots),
      slots_(slots_per_bucket_version),
      slot_size_(slot_size),
      stride_(slot_size + BucketVersion::kTrailer),
      pool_(std::make_shared<VersionPool>(slots_, slot_size_)),
      cache_bucket_versions_(bucket_versions_in(cache_bytes)) {}

void BucketStore::set_cache_bytes(std::size_t bytes) {
  {
    std::lock_guard lock(mutex_);
    cache_bucket_versions_ = bucket_versions_in(bytes);
    evict();
  }
  pool_->clear();
}

Status BucketStore::told(Status of_disk) {
  if (of_disk) return of_disk;
  std::lock_guard lock(mutex_);
  if (told_of_disk_.pass(std::chrono::steady_clock::now().time_since_epoch()))
    spdlog::error("{}{}", of_disk.error().message, told_of_disk_.more());
  return of_disk;
}

std::uint64_t BucketStore::offset(BucketVersionNumber bucket_version, std::size_t slot) const {
  if (bucket_version == kRootBuffer) return slot * stride_;
  return (root_buffer_slots_ + std::uint64_t{bucket_version - 1} * slots_ + slot) * stride_;
}

/// Returns the checksum of slot and stamp. It also covers the place and the owner, so that a
/// misdirected write and another server's slots are noticed.
std::uint64_t BucketStore::checksum(BucketVersionNumber bucket_version, std::size_t slot,
                                    const std::uint8_t* bytes, std::uint64_t salt) const {
  const std::uint64_t place = (std::uint64_t{bucket_version} << 16) ^ slot ^ 0x5332'4f52u;
  return XXH3_64bits_withSeed(bytes, slot_size_ + sizeof(std::uint64_t), place ^ salt);
}

void BucketStore::seal(BucketVersionNumber bucket_version, std::size_t slot, std::uint8_t* bytes,
                       std::uint64_t stamp) const {
  std::memcpy(bytes + slot_size_, &stamp, sizeof stamp);
  const std::uint64_t sum = checksum(bucket_version, slot, bytes, salt_);
  std::memcpy(bytes + slot_size_ + sizeof stamp, &sum, sizeof sum);
}

bool BucketStore::intact(BucketVersionNumber bucket_version, std::size_t slot,
                         const std::uint8_t* bytes, Stamp stamp) const {
  std::uint64_t found = 0, sum = 0;
  std::memcpy(&found, bytes + slot_size_, sizeof found);
  std::memcpy(&sum, bytes + slot_size_ + sizeof found, sizeof sum);
  return found == stamp.value_or(found) && sum == checksum(bucket_version, slot, bytes, salt_);
}

std::uint64_t BucketStore::possible_bucket_versions() const {
  const std::uint64_t slots = file_->largest() / stride_;
  return (slots - std::min<std::uint64_t>(slots, root_buffer_slots_)) / slots_;
}

BucketStore::Cached* BucketStore::find(const BucketVersionRef& ref) {
  const auto found = cache_.find(ref.bucket_version);
  return found != cache_.end() && found->second.checked >= ref.slots ? &found->second : nullptr;
}

bool BucketStore::cached(const BucketVersionRef& ref) {
  std::lock_guard lock(mutex_);
  return find(ref) != nullptr;
}

Result<std::shared_ptr<const BucketVersion>> BucketStore::read(const BucketVersionRef& ref,
                                                               unsigned level) {
  std::uint64_t changes = 0;
  {
    std::lock_guard lock(mutex_);
    changes = changes_;
    if (Cached* const cached = find(ref)) {
      touch(*cached, level);
      return cached->bucket_version;
    }
  }
  S3O_ASSIGN(auto content, load(ref));
  {
    // The bucket version may have been rewritten since it was read.
    std::lock_guard lock(mutex_);
    if (changes == changes_) remember(ref.bucket_version, content, ref.slots, level);
  }
  return std::shared_ptr<const BucketVersion>(std::move(content));
}

Result<std::shared_ptr<BucketVersion>> BucketStore::copy(const BucketVersionRef& ref) {
  if (ref.bucket_version == 0) return VersionPool::take(pool_);
  std::shared_ptr<const BucketVersion> kept;
  {
    std::lock_guard lock(mutex_);
    if (const Cached* const cached = find(ref)) kept = cached->bucket_version;
  }
  if (!kept) return load(ref);
  auto content = VersionPool::take(pool_);
  std::memcpy(content->slot(0), kept->slot(0), ref.slots * stride_);
  return content;
}

void BucketStore::keep(const BucketVersionRef& ref, std::shared_ptr<const BucketVersion> content,
                       unsigned level) {
  std::lock_guard lock(mutex_);
  remember(ref.bucket_version, std::move(content), ref.slots, level);
}

Status BucketStore::read(std::uint64_t at, MutableByteSpan out) {
  const DiskWatch::Operation operation(watch_);
  Status done = told(file_->read(at, out));
  return done ? done : told(file_->read(at, out));
}

Status BucketStore::write_bytes(std::uint64_t at, ByteSpan bytes) {
  const DiskWatch::Operation operation(watch_);
  return told(file_->write(at, bytes));
}

void BucketStore::write_out(std::uint64_t at, std::size_t bytes) {
  const DiskWatch::Operation operation(watch_);
  file_->write_out(at, bytes);
}

/// Reports a damaged slot, or the loss of the whole file if its name no longer leads to it.
tl::unexpected<Error> BucketStore::damage(std::string what) {
  if (Status there = still_there(); is_lost(there)) return fail(std::move(there).error());
  return fail(Error{Errc::corrupt, std::move(what)});
}

Result<std::shared_ptr<BucketVersion>> BucketStore::load(const BucketVersionRef& ref) {
  const auto [bucket_version, slots, stamp] = ref;
  auto content = VersionPool::take(pool_);
  // Counts as damage, like content that the disk returns wrong, because a write mends it.
  if (!read(offset(bucket_version, 0), content->bytes().first(slots * stride_)))
    return damage(fmt::format("bucket version {} cannot be read from the disk", bucket_version));
  for (std::size_t slot = 0; slot < slots; ++slot)
    if (rule_holds(Rule::checksums) && !intact(bucket_version, slot, content->slot(slot), stamp))
      return damage(
          fmt::format("slot {} of bucket version {} is damaged on disk", slot, bucket_version));
  return content;
}

Status BucketStore::write(BucketVersionNumber bucket_version,
                          std::shared_ptr<BucketVersion> content, std::uint64_t stamp,
                          unsigned level) {
  for (std::size_t slot = 0; slot < slots_; ++slot)
    seal(bucket_version, slot, content->slot(slot), stamp);
  const MutableByteSpan bytes = content->bytes();
  for (std::size_t at = 0; at < bytes.size(); at += kMostUnderWay) {
    const ByteSpan part = bytes.subspan(at, std::min(kMostUnderWay, bytes.size() - at));
    S3O_TRY(write_bytes(offset(bucket_version, 0) + at, part));
    write_out(offset(bucket_version, 0) + at, part.size());
  }
  std::lock_guard lock(mutex_);
  ++changes_;
  remember(bucket_version, std::move(content), slots_, level);
  return {};
}

Status BucketStore::write_slot(BucketVersionNumber bucket_version, std::size_t slot,
                               ByteSpan content, std::uint64_t stamp) {
  Bytes record(content.begin(), content.end());
  record.resize(stride_);
  seal(bucket_version, slot, record.data(), stamp);
  S3O_TRY(write_bytes(offset(bucket_version, slot), record));
  if (bucket_version != kRootBuffer) forget(bucket_version);
  return {};
}

// Zeros have no right checksum.
Status BucketStore::clear_slot(BucketVersionNumber bucket_version, std::size_t slot) {
  S3O_TRY(write_bytes(offset(bucket_version, slot), Bytes(stride_)));
  forget(bucket_version);
  return {};
}

Result<std::optional<BucketStore::StampedSlot>> BucketStore::read_slot(
    BucketVersionNumber bucket_version, std::size_t slot, Stamp stamp) {
  StampedSlot result{0, Bytes(stride_)};
  S3O_TRY(read(offset(bucket_version, slot), result.content));
  if (!intact(bucket_version, slot, result.content.data(), stamp)) {
    if (Status there = still_there(); is_lost(there)) return fail(std::move(there).error());
    return std::optional<StampedSlot>();
  }
  std::memcpy(&result.stamp, result.content.data() + slot_size_, sizeof result.stamp);
  result.content.resize(slot_size_);
  return std::optional<StampedSlot>(std::move(result));
}

bool BucketStore::is_foreign(BucketVersionNumber bucket_version, std::size_t slot, Stamp stamp,
                             const std::vector<Bytes>& others) {
  Bytes record(stride_);
  if (!read(offset(bucket_version, slot), record)) return false;
  std::uint64_t found = 0, sum = 0;
  std::memcpy(&found, record.data() + slot_size_, sizeof found);
  std::memcpy(&sum, record.data() + slot_size_ + sizeof found, sizeof sum);
  if (intact(bucket_version, slot, record.data(), stamp)) return false;
  if (!stamp) return std::ranges::all_of(record, [](std::uint8_t byte) { return byte == 0; });
  return found != *stamp || std::ranges::any_of(others, [&](const Bytes& owner) {
           return sum == checksum(bucket_version, slot, record.data(), salt_of(owner));
         });
}

Result<std::vector<std::uint16_t>> BucketStore::damaged(const BucketVersionRef& ref) {
  std::vector<std::uint16_t> found;
  for (std::size_t slot = 0; slot < ref.slots; ++slot) {
    auto content = read_slot(ref.bucket_version, slot, ref.stamp);
    if (!content && content.error().code == Errc::damaged_vault) return fail(content.error());
    if (!content || !*content) found.push_back(static_cast<std::uint16_t>(slot));
  }
  return found;
}

void BucketStore::forget(BucketVersionNumber bucket_version) {
  std::lock_guard lock(mutex_);
  ++changes_;
  const auto found = cache_.find(bucket_version);
  if (found == cache_.end()) return;
  uses_[found->second.level].erase(found->second.use);
  cache_.erase(found);
}

void BucketStore::touch(Cached& cached, unsigned level) {
  auto& list = uses_[level];
  list.splice(list.end(), uses_[cached.level], cached.use);
  cached.level = level;
}

void BucketStore::remember(BucketVersionNumber bucket_version,
                           std::shared_ptr<const BucketVersion> content, std::size_t checked,
                           unsigned level) {
  const auto found = cache_.find(bucket_version);
  if (found != cache_.end()) {
    found->second.bucket_version = std::move(content);
    found->second.checked = checked;
    touch(found->second, level);
    return;
  }
  auto& list = uses_[level];
  cache_.emplace(bucket_version, Cached{std::move(content), checked, level,
                                        list.insert(list.end(), bucket_version)});
  evict();
}

void BucketStore::evict() {
  while (cache_.size() > cache_bucket_versions_) {
    const auto deepest = std::prev(uses_.end());
    if (deepest->second.empty()) {
      uses_.erase(deepest);
      continue;
    }
    cache_.erase(deepest->second.front());
    deepest->second.pop_front();
  }
}

}  // namespace s3oram
