// Keeps files and names in memory, makes disk operations fail, and cuts the power.
#include "tests/sim/sim_disk.h"

#include <atomic>

#include "tests/sim/sim_inode.h"
#include "tests/sim/sim_vfs.h"

namespace s3oram::test {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

/// A file of a SimDisk. Its sync is the step that has the file's name.
class SimFile final : public File {
 public:
  SimFile(SimDisk& disk, std::shared_ptr<SimInode> inode, std::filesystem::path path)
      : disk_(disk), inode_(std::move(inode)), path_(std::move(path)) {}

  Status read(std::uint64_t offset, MutableByteSpan out) override {
    disk_.count_file_read();
    return answer(disk_.read(*inode_, offset, out), "read");
  }
  Status write(std::uint64_t offset, ByteSpan data) override {
    return answer(disk_.write(*inode_, offset, data), "write");
  }
  Status sync() override {
    const std::string name = path_.filename().string();
    disk_.step(name, false);
    S3O_TRY(answer(disk_.sync(*inode_), "sync"));
    disk_.step(name, true);
    return {};
  }
  Status reserve(std::uint64_t size) override {
    return answer(disk_.reserve(*inode_, size), "reserve space in");
  }
  std::uint64_t largest() override { return disk_.largest(*inode_); }
  Result<std::uint64_t> size() override { return disk_.size(*inode_); }
  Status truncate(std::uint64_t size) override {
    return answer(disk_.truncate(*inode_, size), "truncate");
  }

 private:
  Status answer(DiskOutcome outcome, const char* what) const {
    if (outcome == DiskOutcome::ok) return {};
    if (outcome == DiskOutcome::full)
      return fail(Errc::disk_full, "{} {}: the simulated disk is full", what, path_.string());
    return fail(Errc::failed, "{} {}: a simulated fault", what, path_.string());
  }
  SimDisk& disk_;
  std::shared_ptr<SimInode> inode_;
  std::filesystem::path path_;
};

enum Operation : std::uint64_t { kRead, kWrite, kTruncate, kSync, kMake, kRemove, kSyncNames };

std::uint64_t pages_of(std::uint64_t bytes) { return (bytes + kDiskPage - 1) / kDiskPage; }

}  // namespace

SimDisk::SimDisk(DiskImage image, std::uint64_t seed, Trace* trace) : random_(seed), trace_(trace) {
  for (auto& [path, content] : image.files)
    names_[path] = std::make_shared<SimInode>(std::move(content));
  durable_names_ = names_;
  static std::atomic<std::uint64_t> count{0};
  vfs_name_ = "sim-" + std::to_string(++count);
  register_sim_vfs(*this, vfs_name_);
}

std::unique_ptr<SimDisk> SimDisk::next_life() {
  Lock lock(mutex_);
  auto next = std::make_unique<SimDisk>(image_ ? std::exchange(*image_, {}) : DiskImage{},
                                        random_(), trace_);
  next->faults = faults;
  next->page_key_ = page_key_;
  next->space_ = space_;
  if (image_) return next;
  std::map<const SimInode*, std::shared_ptr<SimInode>> copies;
  const auto copy = [&](const auto& names, auto& to) {
    for (const auto& [path, inode] : names) {
      auto& made = copies[inode.get()];
      if (!made) made = inode->without_users();
      to[path] = made;
    }
  };
  copy(names_, next->names_);
  copy(durable_names_, next->durable_names_);
  return next;
}

SimDisk::~SimDisk() { unregister_sim_vfs(vfs_name_); }

void SimDisk::add_trace(std::uint64_t operation, std::uint64_t offset, ByteSpan data) {
  if (!trace_ || image_) return;  // nobody hears ghosts
  trace_->add(operation << 56 ^ offset);
  trace_->add(data);
}

Result<std::unique_ptr<File>> SimDisk::open(const std::filesystem::path& path) {
  Lock lock(mutex_);
  auto inode = find_or_make(path.string());
  sync_names();
  return std::make_unique<SimFile>(*this, std::move(inode), path);
}

void SimDisk::step(std::string_view name, bool done) {
  Lock lock(mutex_);
  if (on_step && !image_) on_step(name, done);
}

// ---- power

void SimDisk::cut() {
  Lock lock(mutex_);
  if (image_) return;
  auto names = durable_names_;
  for (const auto& [path, inode] : names_)
    if (const auto found = names.find(path); found == names.end() || found->second != inode)
      if (random_() % 2 == 0) names[path] = inode;
  for (const auto& [path, inode] : durable_names_)
    if (!names_.contains(path) && random_() % 2 == 0) names.erase(path);
  DiskImage image;
  for (const auto& [path, inode] : names) image.files[path] = inode->after_cut(random_);
  image_ = std::move(image);
  if (auto then = std::exchange(on_cut, {})) then();
}

void SimDisk::moment() {
  if (++moments_ == cut_at_) cut();
}

DiskImage SimDisk::image() const {
  Lock lock(mutex_);
  if (image_) return *image_;
  DiskImage image;
  for (const auto& [path, inode] : names_) image.files[path] = inode->live();
  return image;
}

void SimDisk::put(const DiskImage& image) {
  Lock lock(mutex_);
  names_.clear();
  for (const auto& [path, content] : image.files)
    names_[path] = std::make_shared<SimInode>(content);
  durable_names_ = names_;
}

// ---- faults

bool SimDisk::chance(double probability) {
  return probability > 0 && static_cast<double>(random_()) < probability * 18446744073709551615.0;
}

void SimDisk::leave_space(std::optional<std::uint64_t> bytes) {
  Lock lock(mutex_);
  space_ = bytes;
}

void SimDisk::rot(const std::string& path, std::uint64_t offset, std::uint8_t mask) {
  Lock lock(mutex_);
  if (auto inode = find(path)) inode->rot(offset, mask);
}

void SimDisk::make_unreadable(const std::string& path, std::uint64_t from, std::uint64_t to) {
  Lock lock(mutex_);
  if (auto inode = find(path)) inode->unreadable.push_back({from, to});
}

Bytes SimDisk::content(const std::string& path) const {
  Lock lock(mutex_);
  const auto found = names_.find(path);
  return found == names_.end() ? Bytes{} : found->second->live().bytes;
}

// ---- names

std::shared_ptr<SimInode> SimDisk::find(const std::string& path) {
  Lock lock(mutex_);
  const auto found = names_.find(path);
  return found == names_.end() ? nullptr : found->second;
}

std::shared_ptr<SimInode> SimDisk::find_or_make(const std::string& path) {
  Lock lock(mutex_);
  if (auto inode = find(path)) return inode;
  moment();
  add_trace(kMake, 0, as_bytes(path));
  auto inode = names_[path] = std::make_shared<SimInode>();
  moment();
  return inode;
}

bool SimDisk::remove(const std::string& path) {
  Lock lock(mutex_);
  const auto found = names_.find(path);
  if (found == names_.end()) return false;
  moment();
  add_trace(kRemove, 0, as_bytes(path));
  if (space_) *space_ += found->second->page_count() * kDiskPage;
  names_.erase(found);
  moment();
  return true;
}

void SimDisk::sync_names() {
  Lock lock(mutex_);
  moment();
  add_trace(kSyncNames, 0, {});
  durable_names_ = names_;
  moment();
}

// ---- contents

bool SimDisk::take_pages(SimInode& inode, std::uint64_t from, std::uint64_t to) {
  if (space_) {
    std::uint64_t needed = 0;
    for (std::uint64_t page = from; page < to; ++page)
      if (!inode.has_page(page)) needed += kDiskPage;
    if (needed > *space_) return false;
    *space_ -= needed;
  }
  if (from < to) inode.take(from, to);
  return true;
}

DiskOutcome SimDisk::read(SimInode& inode, std::uint64_t offset, MutableByteSpan out) {
  Lock lock(mutex_);
  if (chance(faults.read) || inode.is_unreadable(offset, out.size())) return DiskOutcome::error;
  inode.read(offset, out);
  return DiskOutcome::ok;
}

DiskOutcome SimDisk::write(SimInode& inode, std::uint64_t offset, ByteSpan data) {
  Lock lock(mutex_);
  moment();
  add_trace(kWrite, offset, data);
  if (chance(faults.write)) {
    // Some of it may have been written.
    const std::size_t part = random_() % (data.size() + 1);
    if (take_pages(inode, offset / kDiskPage, pages_of(offset + part)) && part > 0)
      inode.write(offset, data.first(part));
    return DiskOutcome::error;
  }
  if (!take_pages(inode, offset / kDiskPage, pages_of(offset + data.size())))
    return DiskOutcome::full;
  inode.write(offset, data);
  moment();
  return DiskOutcome::ok;
}

DiskOutcome SimDisk::truncate(SimInode& inode, std::uint64_t size) {
  Lock lock(mutex_);
  moment();
  add_trace(kTruncate, size, {});
  const std::uint64_t before = inode.page_count();
  inode.truncate(size);
  if (space_) *space_ += (before - inode.page_count()) * kDiskPage;
  moment();
  return DiskOutcome::ok;
}

DiskOutcome SimDisk::sync(SimInode& inode) {
  Lock lock(mutex_);
  moment();
  add_trace(kSync, 0, {});
  if (std::exchange(fail_next_sync_, false) || chance(faults.sync)) {
    inode.lose_unsynced(random_);
    return DiskOutcome::error;
  }
  inode.sync();
  ++syncs_;
  moment();
  return DiskOutcome::ok;
}

DiskOutcome SimDisk::reserve(SimInode& inode, std::uint64_t size) {
  Lock lock(mutex_);
  return take_pages(inode, 0, pages_of(size)) ? DiskOutcome::ok : DiskOutcome::full;
}

std::uint64_t SimDisk::largest(SimInode& inode) {
  Lock lock(mutex_);
  if (!space_) return std::numeric_limits<std::int64_t>::max();
  return inode.page_count() * kDiskPage + *space_;
}

std::uint64_t SimDisk::size(SimInode& inode) {
  Lock lock(mutex_);
  return inode.live().bytes.size();
}

}  // namespace s3oram::test
