// Reads and writes the data of files, and reports the figures of the whole file system.
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
  Lock lock(state_.mutex);
  S3O_POSIX_GET(node, inodes_.known(ino));
  const auto now = state_.timing.wall_clock();
  InodeRow& row = node->row;
  if (state_.options.update_atime && !state_.options.read_only && !quietly &&
      (row.atime <= row.mtime || row.atime <= row.ctime || row.atime < now - kDay)) {
    row.atime = now;
    state_.store(*node);
  }
  return state_.cache.read(lock, *node, offset, out);
}

Posix<bool> FileSystem::write(Ino ino, std::uint64_t offset, ByteSpan in, bool from_page_cache) {
  Lock lock(state_.mutex);
  if (state_.options.read_only) return posix_error(EROFS);
  S3O_POSIX_GET(node, inodes_.known(ino));
  if (offset > kLargestFile || in.size() > kLargestFile - offset) return posix_error(EFBIG);
  const std::uint64_t before = state_.cache.bytes_of(*node);
  const std::uint64_t end = offset + in.size();
  auto written = state_.cache.write(lock, *node, offset, in, from_page_cache);
  if (!written && written.error() == ENOSPC && state_.cache.has_replacements()) {
    flusher_.settle([](const Node& other) { return other.unflushed == 0; });  // frees old contents
    written = state_.cache.write(lock, *node, offset, in, from_page_cache);
  }
  if (!written) {
    // The kernel has already grown the file, and shows that size to all programs.
    if (from_page_cache && end > node->size) S3O_POSIX_TRY(state_.cache.truncate(*node, end));
    return posix_error(written.error());
  }
  const bool other_room = state_.cache.bytes_of(*node) != before;
  if (from_page_cache) return other_room;
  node->row.mtime = node->row.ctime = state_.timing.wall_clock();
  state_.store(*node);
  return other_room;
}

/// Does not reserve room for a file, because the volume's blocks cannot be reserved. Without
/// PUNCH_HOLE or ZERO_RANGE it only grows the file's size, and fails if there is no room now.
PosixStatus FileSystem::fallocate(Ino ino, int mode, std::uint64_t offset, std::uint64_t length) {
  constexpr int kKnown = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  if ((mode & ~kKnown) != 0) return posix_error(EOPNOTSUPP);
  if (length == 0) return posix_error(EINVAL);
  if (offset > kLargestFile || length > kLargestFile - offset) return posix_error(EFBIG);
  Lock lock(state_.mutex);
  S3O_POSIX_TRY(flusher_.admit(lock));
  S3O_POSIX_GET(node, inodes_.known(ino));
  if (!S_ISREG(node->row.mode)) return posix_error(EOPNOTSUPP);
  if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0) {
    S3O_POSIX_TRY(state_.cache.punch(lock, *node, offset, length));
  } else if (const auto free = free_bytes(state_.cache.spare_bytes()); length > free) {
    S3O_POSIX_GET(has, state_.cache.bytes_within(*node, offset, length));
    if (length - has > free) return posix_error(ENOSPC);
  }
  if ((mode & FALLOC_FL_KEEP_SIZE) == 0 && offset + length > node->size)
    S3O_POSIX_TRY(state_.cache.truncate(*node, offset + length));
  node->row.mtime = node->row.ctime = state_.timing.wall_clock();
  state_.store(*node);
  return {};
}

Posix<std::uint64_t> FileSystem::seek(Ino ino, std::uint64_t offset, int whence) {
  const Lock lock(state_.mutex);
  S3O_POSIX_GET(node, inodes_.known(ino));
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return posix_error(EINVAL);
  if (offset >= node->size) return posix_error(ENXIO);
  return state_.cache.seek(*node, offset, whence == SEEK_DATA);
}

/// Flushes a rewritten file immediately, because many programs replace files that way without a
/// sync.
void FileSystem::closed(Ino ino) {
  const Lock lock(state_.mutex);
  const auto node = inodes_.known(ino);
  if (!node || !std::exchange((*node)->rewritten, false)) return;
  if (const auto completed = state_.cache.complete(**node); !completed)
    spdlog::error("inode {}: its new content cannot be committed yet: {}", ino,
                  std::strerror(completed.error()));
}

/// Reports the ENOSPC of a write-back here, because no program waited for the write-back itself.
PosixStatus FileSystem::closing(Ino ino) {
  const Lock lock(state_.mutex);
  const auto node = inodes_.known(ino);
  if (node && state_.cache.held_back(**node)) return posix_error(ENOSPC);
  return {};
}

/// Returns the free bytes, less `spare`. Blocks held for a backup count as free, because a new
/// backup releases them on demand.
std::uint64_t FileSystem::free_bytes(std::uint64_t spare) const {
  const std::uint64_t taken = state_.cache.room_bytes() + spare;
  const std::uint64_t room = state_.options.cache.free_bytes() +
                             state_.cache.numbers.uncovered() * state_.cache.block_size();
  return std::min(room - std::min(room, taken), state_.options.database_room());
}

Posix<struct statvfs> FileSystem::statfs() {
  state_.device.refresh_room();
  const Lock lock(state_.mutex);
  struct statvfs out {};
  out.f_bsize = out.f_frsize = state_.cache.block_size();
  out.f_bfree = free_bytes(0) / state_.cache.block_size();
  out.f_bavail = free_bytes(state_.cache.spare_bytes()) / state_.cache.block_size();
  out.f_blocks = state_.cache.numbers.owned() +
                 state_.cache.room_bytes() / state_.cache.block_size() + out.f_bfree;
  out.f_ffree = out.f_favail = out.f_bavail;  // one block for each new file
  out.f_files = inodes_.count() + out.f_ffree;
  out.f_namemax = 255;
  return out;
}

void FileSystem::set_cache_limit(std::size_t bytes) {
  const Lock lock(state_.mutex);
  state_.cache.set_limit(bytes);
}

void FileSystem::drop_clean() {
  const Lock lock(state_.mutex);
  for (const auto& [ino, node] : inodes_.in_memory()) state_.cache.drop_clean(*node);
  state_.cache.packs.drop_clean();
}

FileSystemStatus FileSystem::status() {
  const Lock lock(state_.mutex);
  FileSystemStatus status{
      .cache_bytes = state_.cache.bytes(),
      .cache_limit = state_.cache.limit(),
      .dirty_bytes = state_.cache.dirty_bytes(),
      .inodes = inodes_.count(),
      .nodes = inodes_.in_memory().size(),
      .uncommitted_rows = state_.options.read_only ? 0 : state_.metadata.uncommitted(),
      .damage = state_.metadata.damage.count(),
      .first_damage = state_.metadata.damage.first(),
      .lost_blocks = lost_blocks_,
      .backup = backups_.status(),
      .backup_failure = {}};
  for (const auto& [ino, node] : inodes_.in_memory())
    if (node->replacement) status.uncommitted_rows += 1 + node->replacement->extents.size();
  const auto now = state_.timing.now();
  const auto since = [now](Timing::Time then) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - then);
  };
  if (status.dirty_bytes > 0 || status.uncommitted_rows > 0)
    status.lag = since(flusher_.durable_at());
  status.backup_failure = backup_thread_.failure();
  if (!status.backup_failure.empty())
    status.backup_failing_for = since(backup_thread_.failing_since());
  if (status.dirty_bytes == 0) return status;
  for (const auto& [ino, node] : inodes_.in_memory()) {
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
