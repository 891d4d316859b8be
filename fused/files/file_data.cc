// Data of files, and the figures of the whole file system.
#include <linux/falloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "fused/files/file_system.h"

namespace s3oram {
namespace {

constexpr std::int64_t kDay = 86'400'000'000'000;  // ns

}  // namespace

Posix<std::size_t> FileSystem::read(Ino ino, std::uint64_t offset, MutableByteSpan out,
                                    bool quietly) {
  Lock lock(mutex_);
  S3O_POSIX_GET(node, known(ino));
  const auto now = timing_.wall_clock();
  InodeRow& row = node->row;
  if (options_.update_atime && !options_.read_only && !quietly &&
      (row.atime <= row.mtime || row.atime <= row.ctime || row.atime < now - kDay)) {
    row.atime = now;
    store(*node);
  }
  return cache_.read(lock, *node, offset, out);
}

Posix<bool> FileSystem::write(Ino ino, std::uint64_t offset, ByteSpan in, bool from_page_cache) {
  Lock lock(mutex_);
  if (options_.read_only) return posix_error(EROFS);
  S3O_POSIX_GET(node, known(ino));
  if (offset > kLargestFile || in.size() > kLargestFile - offset) return posix_error(EFBIG);
  const std::uint64_t before = cache_.bytes_of(*node);
  const std::uint64_t end = offset + in.size();
  auto written = cache_.write(lock, *node, offset, in, from_page_cache);
  if (!written && written.error() == ENOSPC && cache_.has_replacements()) {
    settle([](const Node& other) { return other.unflushed == 0; });  // what they replace gives room
    written = cache_.write(lock, *node, offset, in, from_page_cache);
  }
  if (!written) {
    // The kernel's size of the file, and so everybody's, has grown already.
    if (from_page_cache && end > node->size) S3O_POSIX_TRY(cache_.truncate(*node, end));
    return posix_error(written.error());
  }
  const bool other_room = cache_.bytes_of(*node) != before;
  if (from_page_cache) return other_room;
  node->row.mtime = node->row.ctime = timing_.wall_clock();
  store(*node);
  return other_room;
}

/// Room cannot be promised to a file: the volume's blocks are not reserved. Without PUNCH_HOLE or
/// ZERO_RANGE all that happens is the growth of the size; but what cannot have room is refused.
PosixStatus FileSystem::fallocate(Ino ino, int mode, std::uint64_t offset, std::uint64_t length) {
  constexpr int kKnown = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  if ((mode & ~kKnown) != 0) return posix_error(EOPNOTSUPP);
  if (length == 0) return posix_error(EINVAL);
  if (offset > kLargestFile || length > kLargestFile - offset) return posix_error(EFBIG);
  Lock lock(mutex_);
  S3O_POSIX_TRY(admit(lock));
  S3O_POSIX_GET(node, known(ino));
  if (!S_ISREG(node->row.mode)) return posix_error(EOPNOTSUPP);
  if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0) {
    S3O_POSIX_TRY(cache_.punch(lock, *node, offset, length));
  } else if (const auto free = free_bytes(cache_.spare_bytes()); length > free) {
    S3O_POSIX_GET(has, cache_.bytes_within(*node, offset, length));
    if (length - has > free) return posix_error(ENOSPC);
  }
  if ((mode & FALLOC_FL_KEEP_SIZE) == 0 && offset + length > node->size)
    S3O_POSIX_TRY(cache_.truncate(*node, offset + length));
  node->row.mtime = node->row.ctime = timing_.wall_clock();
  store(*node);
  return {};
}

Posix<std::uint64_t> FileSystem::seek(Ino ino, std::uint64_t offset, int whence) {
  const Lock lock(mutex_);
  S3O_POSIX_GET(node, known(ino));
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return posix_error(EINVAL);
  if (offset >= node->size) return posix_error(ENXIO);
  return cache_.seek(*node, offset, whence == SEEK_DATA);
}

/// Many programs replace files that way, and do not sync: the data is flushed at once.
void FileSystem::closed(Ino ino) {
  const Lock lock(mutex_);
  const auto node = known(ino);
  if (!node || !std::exchange((*node)->rewritten, false)) return;
  if (const auto completed = cache_.complete(**node); !completed)
    spdlog::error("inode {}: its new content waits: {}", ino, std::strerror(completed.error()));
}

/// It came from the kernel's cache, and nobody waited for that.
PosixStatus FileSystem::closing(Ino ino) {
  const Lock lock(mutex_);
  const auto node = known(ino);
  if (node && cache_.held_back(**node)) return posix_error(ENOSPC);
  return {};
}

/// What is freed and still held for a backup is given back when there is need. `spare`: left free.
std::uint64_t FileSystem::free_bytes(std::uint64_t spare) const {
  const std::uint64_t taken = cache_.room_bytes() + spare;
  const std::uint64_t room =
      options_.cache.free_bytes() + cache_.numbers.uncovered() * cache_.block_size();
  return std::min(room - std::min(room, taken), options_.database_room());
}

Posix<struct statvfs> FileSystem::statfs() {
  device_.refresh_room();
  const Lock lock(mutex_);
  struct statvfs out {};
  out.f_bsize = out.f_frsize = cache_.block_size();
  out.f_bfree = free_bytes(0) / cache_.block_size();
  out.f_bavail = free_bytes(cache_.spare_bytes()) / cache_.block_size();
  out.f_blocks = cache_.numbers.owned() + cache_.room_bytes() / cache_.block_size() + out.f_bfree;
  out.f_ffree = out.f_favail = out.f_bavail;  // as many as there is room for a block each
  out.f_files = inodes_ + out.f_ffree;
  out.f_namemax = 255;
  return out;
}

void FileSystem::set_cache_limit(std::size_t bytes) {
  const Lock lock(mutex_);
  cache_.set_limit(bytes);
}

void FileSystem::drop_clean() {
  const Lock lock(mutex_);
  for (const auto& [ino, node] : nodes_) cache_.drop_clean(*node);
  cache_.packs.drop_clean();
}

FileSystemStatus FileSystem::status() {
  const Lock lock(mutex_);
  FileSystemStatus status{.cache_bytes = cache_.bytes(),
                          .cache_limit = cache_.limit(),
                          .dirty_bytes = cache_.dirty_bytes(),
                          .inodes = inodes_,
                          .nodes = nodes_.size(),
                          .uncommitted_rows = options_.read_only ? 0 : metadata_.uncommitted(),
                          .damage = metadata_.damage.count(),
                          .first_damage = metadata_.damage.first(),
                          .lost_blocks = lost_blocks_,
                          .backup = backups_.status(),
                          .backup_failure = {}};
  for (const auto& [ino, node] : nodes_)
    if (node->replacement) status.uncommitted_rows += 1 + node->replacement->extents.size();
  const auto now = timing_.now();
  const auto since = [now](Timing::Time then) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - then);
  };
  if (status.dirty_bytes > 0 || status.uncommitted_rows > 0) status.lag = since(durable_at_);
  status.backup_failure = backup_failure_;
  if (!backup_failure_.empty()) status.backup_failing_for = since(backup_failing_since_);
  if (status.dirty_bytes == 0) return status;
  for (const auto& [ino, node] : nodes_) {
    if (node->unflushed == 0) continue;
    for (const auto& [index, block] : node->blocks) {
      if (!block->failing_since || !block->unflushed()) continue;
      status.failing_bytes += block->data.size();
      if (block->write_error == ENOSPC) status.no_room_bytes += block->data.size();
      status.failing_for = std::max(status.failing_for, since(*block->failing_since));
    }
  }
  return status;
}

}  // namespace s3oram
