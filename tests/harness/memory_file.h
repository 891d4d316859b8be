// A disk in memory that can fail as disks do.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>

#include "oramcore/base/file.h"

namespace s3oram::test {

/// The state that the files made by memory_file() share with the test. Used by one thread at a
/// time.
struct MemoryDisk {
  Bytes content;
  bool fail_reads = false, fail_writes = false, fail_syncs = false;
  int reads = 0, writes = 0, syncs = 0;
  std::size_t under_way = 0, most_under_way = 0;  // bytes written that no one waited for
  std::function<void()> after_read, during_sync;  // each is called once, then forgotten
};

class MemoryFile final : public File {
 public:
  explicit MemoryFile(std::shared_ptr<MemoryDisk> disk) : disk_(std::move(disk)) {}
  Status read(std::uint64_t offset, MutableByteSpan out) override {
    ++disk_->reads;
    if (disk_->fail_reads) return fail(Errc::failed, "the disk does not read");
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = offset + i < disk_->content.size() ? disk_->content[offset + i] : 0;
    if (auto then = std::exchange(disk_->after_read, {})) then();
    return {};
  }
  Status write(std::uint64_t offset, ByteSpan data) override {
    ++disk_->writes;
    if (disk_->fail_writes) return fail(Errc::disk_full, "the disk is full");
    if (disk_->content.size() < offset + data.size()) disk_->content.resize(offset + data.size());
    std::copy(data.begin(), data.end(),
              disk_->content.begin() + static_cast<std::ptrdiff_t>(offset));
    disk_->under_way += data.size();
    disk_->most_under_way = std::max(disk_->most_under_way, disk_->under_way);
    return {};
  }
  void write_out(std::uint64_t, std::uint64_t length) override { disk_->under_way -= length; }
  Status sync() override {
    ++disk_->syncs;
    disk_->under_way = 0;
    if (auto then = std::exchange(disk_->during_sync, {})) then();
    if (disk_->fail_syncs) return fail(Errc::failed, "the disk does not sync");
    return {};
  }
  Status truncate(std::uint64_t size) override {
    disk_->content.resize(size);
    return {};
  }
  Status reserve(std::uint64_t) override { return {}; }
  Result<std::uint64_t> size() override { return disk_->content.size(); }

 private:
  std::shared_ptr<MemoryDisk> disk_;
};

inline std::unique_ptr<File> memory_file(std::shared_ptr<MemoryDisk> disk) {
  return std::make_unique<MemoryFile>(std::move(disk));
}

}  // namespace s3oram::test
