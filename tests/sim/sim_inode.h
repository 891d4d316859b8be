// A file of a SimDisk: the content that programs see, the durable content, and the changes between.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tests/sim/sim_disk.h"

namespace s3oram::test {

class SimInode {
 public:
  explicit SimInode(DiskImage::Content content = {})
      : live_(content), durable_(std::move(content)) {}

  /// Returns the same file, as it is when its machine lives on and all programs on it have ended.
  std::shared_ptr<SimInode> without_users() const {
    auto copy = std::make_shared<SimInode>();
    copy->live_ = live_;
    copy->durable_ = durable_;
    copy->unsynced_ = unsynced_;
    copy->unreadable = unreadable;
    return copy;
  }

  const DiskImage::Content& live() const { return live_; }

  void read(std::uint64_t offset, MutableByteSpan out) const {
    const std::size_t there =
        offset < live_.bytes.size() ? std::min(out.size(), live_.bytes.size() - offset) : 0;
    if (there > 0) std::memcpy(out.data(), live_.bytes.data() + offset, there);
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(there), out.end(), 0);
  }
  struct Range {
    std::uint64_t from = 0, to = 0;
    bool meets(std::uint64_t offset, std::uint64_t length) const {
      return offset < to && from < offset + length;
    }
  };
  std::vector<Range> unreadable;
  bool is_unreadable(std::uint64_t offset, std::uint64_t length) const {
    return std::ranges::any_of(unreadable,
                               [&](const Range& bad) { return bad.meets(offset, length); });
  }
  void write(std::uint64_t offset, ByteSpan data) {
    std::erase_if(unreadable, [&](const Range& bad) { return bad.meets(offset, data.size()); });
    put(live_, offset, data);
    unsynced_.push_back({offset, Bytes(data.begin(), data.end()), false});
  }
  void truncate(std::uint64_t size) {
    cut_off(live_, size);
    unsynced_.push_back({size, {}, true});
  }
  /// Allocates the pages [from, to).
  void take(std::size_t from, std::size_t to) {
    if (live_.pages.size() < to) live_.pages.resize(to);
    std::fill(live_.pages.begin() + static_cast<std::ptrdiff_t>(from),
              live_.pages.begin() + static_cast<std::ptrdiff_t>(to), true);
  }
  bool has_page(std::size_t page) const { return page < live_.pages.size() && live_.pages[page]; }
  std::uint64_t page_count() const {
    return static_cast<std::uint64_t>(std::count(live_.pages.begin(), live_.pages.end(), true));
  }

  void sync() {
    for (const Change& change : unsynced_) apply(durable_, change);
    unsynced_.clear();
    durable_.pages = live_.pages;
  }
  /// A sync that failed: most of what was not synced is gone.
  template <class Random>
  void lose_unsynced(Random& random) {
    durable_ = after_cut(random);
    unsynced_.clear();
  }
  void rot(std::uint64_t offset, std::uint8_t mask) {
    for (auto* content : {&live_, &durable_})
      if (offset < content->bytes.size()) content->bytes[offset] ^= mask;
  }

  /// Returns what a power cut leaves.
  template <class Random>
  DiskImage::Content after_cut(Random& random) const {
    DiskImage::Content left = durable_;
    // In some cases all unsynced changes survive, or none.
    const std::uint64_t mood = random() % 8;
    for (const Change& change : unsynced_) {
      const std::uint64_t fate = mood == 0 ? 0 : mood == 1 ? 1 : random() % 3;
      if (fate == 0) apply(left, change);
      if (fate == 2) tear(left, change, random);
    }
    left.pages.resize(std::max(left.pages.size(), (left.bytes.size() + kDiskPage - 1) / kDiskPage));
    for (std::size_t page = 0; page < left.pages.size(); ++page)
      left.pages[page] = left.pages[page] || has_page(page);
    return left;
  }

  // SQLite's locks on the file, and the memory that connections share (sim_vfs.cc).
  int shared_locks = 0;
  const void* reserved_by = nullptr;
  const void* pending_by = nullptr;
  struct SharedMemory {
    int users = 0;
    std::vector<std::unique_ptr<std::uint8_t[]>> regions;
    std::array<int, 8> shared{};
    std::array<const void*, 8> exclusive{};
  };
  SharedMemory memory;

 private:
  struct Change {
    std::uint64_t offset = 0;  // where it begins; for a truncation, the new size
    Bytes data;
    bool truncates = false;
  };
  static void put(DiskImage::Content& content, std::uint64_t offset, ByteSpan data) {
    if (content.bytes.size() < offset + data.size()) content.bytes.resize(offset + data.size());
    if (!data.empty()) std::memcpy(content.bytes.data() + offset, data.data(), data.size());
  }
  static void cut_off(DiskImage::Content& content, std::uint64_t size) {
    content.bytes.resize(size);
    const std::size_t pages = (size + kDiskPage - 1) / kDiskPage;
    if (content.pages.size() > pages) content.pages.resize(pages);
  }
  static void apply(DiskImage::Content& content, const Change& change) {
    if (change.truncates)
      cut_off(content, change.offset);
    else
      put(content, change.offset, change.data);
  }
  template <class Random>
  static void tear(DiskImage::Content& content, const Change& change, Random& random) {
    if (change.truncates) return;
    const ByteSpan data = change.data;
    for (std::uint64_t at = 0; at < data.size();) {
      const std::uint64_t end = std::min<std::uint64_t>(
          data.size(), at + kDiskSector - (change.offset + at) % kDiskSector);
      if (random() % 2 == 0) put(content, change.offset + at, data.subspan(at, end - at));
      at = end;
    }
  }

  DiskImage::Content live_, durable_;
  std::vector<Change> unsynced_;
};

}  // namespace s3oram::test
