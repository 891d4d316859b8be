// What all parts of a file system work on, under one mutex.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "fused/cache/data_cache.h"
#include "fused/files/kernel_references.h"
#include "fused/tables/metadata.h"

namespace s3oram {

struct FileSystemOptions {
  CacheOptions cache;
  std::chrono::milliseconds commit_every{5'000};
  bool update_atime = true;                  // as relatime does
  bool read_only = false;                    // files are not changed, freed or committed
  std::uint32_t root_uid = 0, root_gid = 0;  // of a new root directory
  bool own_ticker = true;                    // a thread calls beat(); otherwise the owner does
  std::size_t most_uncommitted = 48 << 20;   // bytes of rows; above, operations wait for a commit
  std::size_t most_nodes = 50'000;           // about; above, nodes are dropped and read again later
  std::chrono::milliseconds back_up_every{0};  // at most (backups.h); 0: only on request
  /// Returns the bytes of files for which the disk of the database has room. statfs() reports no
  /// more.
  std::function<std::uint64_t()> database_room = [] { return std::uint64_t{1} << 60; };
  KernelReferences references;  // from suspend(), if the kernel still has the mount
};

/// Unless it says otherwise, every function of the parts (Inodes, Directories, Xattrs, FileAcls,
/// CommitQueue, Flusher, BackupThread) is called with `mutex` locked. Those that take the Lock may
/// release it while they wait.
struct FilesState {
  FilesState(BlockDevice& block_device, const FileSystemOptions& given)
      : device(block_device),
        options(given),
        timing(*given.cache.timing),
        cache(mutex, block_device, metadata, given.cache) {}

  void store(const Node& node) { metadata.inodes.put(node.ino, node.row); }
  void tell_of_damage(Ino ino, const std::string& what) {
    metadata.damage.note(fmt::format("inode {}: {}", ino, what));
  }

  std::mutex mutex;  // guards everything below
  BlockDevice& device;
  const FileSystemOptions options;
  Timing& timing;
  Metadata metadata;
  DataCache cache;
  bool stopping = false;      // the file system ends: threads end, and no inode is made any more
  bool ends_backups = false;  // backups end, but for the one that an unmount makes
};

}  // namespace s3oram
