// The state that all parts of a file system share, under one mutex.
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
  bool update_atime = true;                    // updates atime by the rules of relatime
  bool read_only = false;                      // nothing is changed, freed or committed
  std::uint32_t root_uid = 0, root_gid = 0;    // owner of a new root directory
  bool own_ticker = true;                      // a thread calls beat(); otherwise the owner does
  std::size_t most_uncommitted = 48 << 20;     // bytes of rows; with more, operations wait
  std::size_t most_nodes = 50'000;             // about; more are dropped, and read again when used
  std::chrono::milliseconds back_up_every{0};  // least time between backups; if 0, only on request
  /// Returns for how many bytes of files the disk of the database has room. statfs() reports no
  /// more than that.
  std::function<std::uint64_t()> database_room = [] { return std::uint64_t{1} << 60; };
  KernelReferences references;  // what suspend() returned, if the kernel still has the mount
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
  bool stopping = false;      // the file system is ending: threads end, and no more inodes are made
  bool ends_backups = false;  // backups end early, except the one that an unmount makes
};

}  // namespace s3oram
