#include "serverd/store/frame_store.h"

#define XXH_INLINE_ALL
#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

std::uint64_t salt_of(View owner) {
  return owner.empty() ? 0 : XXH3_64bits(owner.data(), owner.size());
}

bool is_lost(const Status& file) { return !file && file.error().code == Errc::damaged_vault; }

}  // namespace

Frame::Frame(std::size_t slots, std::size_t slot_size)
    : slots_(slots),
      stride_(slot_size + kTrailer),
      bytes_(std::make_unique_for_overwrite<std::uint8_t[]>(slots * stride_)) {}

std::shared_ptr<Frame> FramePool::take(const std::shared_ptr<FramePool>& pool) {
  std::unique_ptr<Frame> frame;
  {
    std::lock_guard lock(pool->mutex_);
    if (!pool->free_.empty()) {
      frame = std::move(pool->free_.back());
      pool->free_.pop_back();
    }
  }
  if (!frame) frame = std::make_unique<Frame>(pool->slots_, pool->slot_size_);
  return {frame.release(), [pool](Frame* used) {
            std::unique_ptr<Frame> back(used);
            std::lock_guard lock(pool->mutex_);
            pool->free_.push_back(std::move(back));
          }};
}

void FramePool::clear() {
  std::lock_guard lock(mutex_);
  free_.clear();
}

FrameStore::FrameStore(std::unique_ptr<File> file, View owner, std::size_t ring_slots,
                       std::size_t slots_per_frame, std::size_t slot_size, std::size_t cache_bytes)
    : file_(std::move(file)),
      salt_(salt_of(owner)),
      ring_slots_(ring_slots),
      slots_(slots_per_frame),
      slot_size_(slot_size),
      stride_(slot_size + Frame::kTrailer),
      pool_(std::make_shared<FramePool>(slots_, slot_size_)),
      cache_frames_(frames_in(cache_bytes)) {}

void FrameStore::set_cache_bytes(std::size_t bytes) {
  {
    std::lock_guard lock(mutex_);
    cache_frames_ = frames_in(bytes);
    evict();
  }
  pool_->clear();
}

Status FrameStore::told(Status of_disk) {
  if (of_disk) return of_disk;
  std::lock_guard lock(mutex_);
  if (told_of_disk_.pass(std::chrono::steady_clock::now().time_since_epoch()))
    spdlog::error("{}{}", of_disk.error().message, told_of_disk_.more());
  return of_disk;
}

std::uint64_t FrameStore::offset(FrameNumber frame, std::size_t slot) const {
  if (frame == kRing) return slot * stride_;
  return (ring_slots_ + std::uint64_t{frame - 1} * slots_ + slot) * stride_;
}

/// Of slot and stamp. It binds the place and the owner, so that a misdirected write, and another
/// server's slots, are noticed too.
std::uint64_t FrameStore::checksum(FrameNumber frame, std::size_t slot, const std::uint8_t* bytes,
                                   std::uint64_t salt) const {
  const std::uint64_t place = (std::uint64_t{frame} << 16) ^ slot ^ 0x5332'4f52u;
  return XXH3_64bits_withSeed(bytes, slot_size_ + sizeof(std::uint64_t), place ^ salt);
}

void FrameStore::seal(FrameNumber frame, std::size_t slot, std::uint8_t* bytes,
                      std::uint64_t stamp) const {
  std::memcpy(bytes + slot_size_, &stamp, sizeof stamp);
  const std::uint64_t sum = checksum(frame, slot, bytes, salt_);
  std::memcpy(bytes + slot_size_ + sizeof stamp, &sum, sizeof sum);
}

bool FrameStore::intact(FrameNumber frame, std::size_t slot, const std::uint8_t* bytes,
                        Stamp stamp) const {
  std::uint64_t found = 0, sum = 0;
  std::memcpy(&found, bytes + slot_size_, sizeof found);
  std::memcpy(&sum, bytes + slot_size_ + sizeof found, sizeof sum);
  return found == stamp.value_or(found) && sum == checksum(frame, slot, bytes, salt_);
}

std::uint64_t FrameStore::possible_frames() const {
  const std::uint64_t slots = file_->largest() / stride_;
  return (slots - std::min<std::uint64_t>(slots, ring_slots_)) / slots_;
}

FrameStore::Cached* FrameStore::find(const FrameRef& ref) {
  const auto found = cache_.find(ref.frame);
  return found != cache_.end() && found->second.checked >= ref.slots ? &found->second : nullptr;
}

bool FrameStore::cached(const FrameRef& ref) {
  std::lock_guard lock(mutex_);
  return find(ref) != nullptr;
}

Result<std::shared_ptr<const Frame>> FrameStore::read(const FrameRef& ref, unsigned level) {
  std::uint64_t changes = 0;
  {
    std::lock_guard lock(mutex_);
    changes = changes_;
    if (Cached* const cached = find(ref)) {
      touch(*cached, level);
      return cached->frame;
    }
  }
  S3O_ASSIGN(auto content, load(ref));
  {
    // The frame may have been written anew since we read it.
    std::lock_guard lock(mutex_);
    if (changes == changes_) remember(ref.frame, content, ref.slots, level);
  }
  return std::shared_ptr<const Frame>(std::move(content));
}

Result<std::shared_ptr<Frame>> FrameStore::copy(const FrameRef& ref) {
  if (ref.frame == 0) return FramePool::take(pool_);
  std::shared_ptr<const Frame> kept;
  {
    std::lock_guard lock(mutex_);
    if (const Cached* const cached = find(ref)) kept = cached->frame;
  }
  if (!kept) return load(ref);
  auto content = FramePool::take(pool_);
  std::memcpy(content->slot(0), kept->slot(0), ref.slots * stride_);
  return content;
}

Status FrameStore::read(std::uint64_t at, MutView out) {
  Status done = told(file_->read(at, out));
  return done ? done : told(file_->read(at, out));
}

/// Unless it is the whole file that is not there any more.
tl::unexpected<Error> FrameStore::damage(std::string what) {
  if (Status there = still_there(); is_lost(there)) return fail(std::move(there).error());
  return fail(Error{Errc::corrupt, std::move(what)});
}

Result<std::shared_ptr<Frame>> FrameStore::load(const FrameRef& ref) {
  const auto [frame, slots, stamp] = ref;
  auto content = FramePool::take(pool_);
  // As damaged as what the disk reads wrong: a write mends it.
  if (!read(offset(frame, 0), content->bytes().first(slots * stride_)))
    return damage(fmt::format("frame {} cannot be read from the disk", frame));
  for (std::size_t slot = 0; slot < slots; ++slot)
    if (rule_holds(Rule::checksums) && !intact(frame, slot, content->slot(slot), stamp))
      return damage(fmt::format("slot {} of frame {} is damaged on disk", slot, frame));
  return content;
}

Status FrameStore::write(FrameNumber frame, std::shared_ptr<Frame> content, std::uint64_t stamp,
                         unsigned level) {
  for (std::size_t slot = 0; slot < slots_; ++slot) seal(frame, slot, content->slot(slot), stamp);
  const MutView bytes = content->bytes();
  for (std::size_t at = 0; at < bytes.size(); at += kMostUnderWay) {
    const View part = bytes.subspan(at, std::min(kMostUnderWay, bytes.size() - at));
    S3O_TRY(told(file_->write(offset(frame, 0) + at, part)));
    file_->write_out(offset(frame, 0) + at, part.size());
  }
  std::lock_guard lock(mutex_);
  ++changes_;
  remember(frame, std::move(content), slots_, level);
  return {};
}

Status FrameStore::write_slot(FrameNumber frame, std::size_t slot, View content,
                              std::uint64_t stamp) {
  Bytes record(content.begin(), content.end());
  record.resize(stride_);
  seal(frame, slot, record.data(), stamp);
  S3O_TRY(told(file_->write(offset(frame, slot), record)));
  if (frame != kRing) forget(frame);
  return {};
}

Result<std::optional<FrameStore::StampedSlot>> FrameStore::read_slot(FrameNumber frame,
                                                                     std::size_t slot,
                                                                     Stamp stamp) {
  StampedSlot result{0, Bytes(stride_)};
  S3O_TRY(read(offset(frame, slot), result.content));
  if (!intact(frame, slot, result.content.data(), stamp)) {
    if (Status there = still_there(); is_lost(there)) return fail(std::move(there).error());
    return std::optional<StampedSlot>();
  }
  std::memcpy(&result.stamp, result.content.data() + slot_size_, sizeof result.stamp);
  result.content.resize(slot_size_);
  return std::optional<StampedSlot>(std::move(result));
}

bool FrameStore::is_foreign(FrameNumber frame, std::size_t slot, Stamp stamp,
                            const std::vector<Bytes>& others) {
  Bytes record(stride_);
  if (!read(offset(frame, slot), record)) return false;
  std::uint64_t found = 0, sum = 0;
  std::memcpy(&found, record.data() + slot_size_, sizeof found);
  std::memcpy(&sum, record.data() + slot_size_ + sizeof found, sizeof sum);
  if (intact(frame, slot, record.data(), stamp)) return false;
  if (!stamp) return std::ranges::all_of(record, [](std::uint8_t byte) { return byte == 0; });
  return found != *stamp || std::ranges::any_of(others, [&](const Bytes& owner) {
           return sum == checksum(frame, slot, record.data(), salt_of(owner));
         });
}

Result<std::vector<std::uint16_t>> FrameStore::damaged(const FrameRef& ref) {
  std::vector<std::uint16_t> found;
  for (std::size_t slot = 0; slot < ref.slots; ++slot) {
    auto content = read_slot(ref.frame, slot, ref.stamp);
    if (!content && content.error().code == Errc::damaged_vault) return fail(content.error());
    if (!content || !*content) found.push_back(static_cast<std::uint16_t>(slot));
  }
  return found;
}

void FrameStore::forget(FrameNumber frame) {
  std::lock_guard lock(mutex_);
  ++changes_;
  const auto found = cache_.find(frame);
  if (found == cache_.end()) return;
  uses_[found->second.level].erase(found->second.use);
  cache_.erase(found);
}

void FrameStore::touch(Cached& cached, unsigned level) {
  auto& list = uses_[level];
  list.splice(list.end(), uses_[cached.level], cached.use);
  cached.level = level;
}

void FrameStore::remember(FrameNumber frame, std::shared_ptr<const Frame> content,
                          std::size_t checked, unsigned level) {
  const auto found = cache_.find(frame);
  if (found != cache_.end()) {
    found->second.frame = std::move(content);
    found->second.checked = checked;
    touch(found->second, level);
    return;
  }
  auto& list = uses_[level];
  cache_.emplace(frame, Cached{std::move(content), checked, level, list.insert(list.end(), frame)});
  evict();
}

void FrameStore::evict() {
  while (cache_.size() > cache_frames_) {
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
