// Room kept back on a party's disk, so that operations that free room (deleting, deciding an
// eviction) can still be written when the disk is full (Rule::ballast). Used by one thread at a
// time, except for whole().
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>

#include "oramcore/base/disk.h"

namespace s3oram {

class Ballast {
 public:
  /// Keeps `bytes` in the file `path`. Succeeds even if the disk is already full: see whole().
  static Result<std::unique_ptr<Ballast>> open(Disk& disk, const std::filesystem::path& path,
                                               std::uint64_t bytes);

  /// Gives up the room kept in `path` if the disk has hardly any other room. Call it before a
  /// database is opened on that disk, because on a full disk the process dies when SQLite writes to
  /// a file that it has mapped.
  static void release_if_full(const std::filesystem::path& path);

  /// Gives up the room, for the next write. Returns false if none was left.
  bool release();
  /// Reserves the room again if there is enough. Returns whole().
  bool restore();
  /// Keeps `bytes` from now on. If there is no room for them, returns false and keeps the same
  /// amount as before.
  bool enlarge(std::uint64_t bytes);
  /// Returns whether the room is kept. While it is not, begin nothing that only adds data to the
  /// disk.
  bool whole() const { return whole_; }

 private:
  Ballast(std::unique_ptr<File> file, std::uint64_t bytes)
      : file_(std::move(file)), bytes_(bytes) {}
  std::unique_ptr<File> file_;
  std::uint64_t bytes_;
  std::atomic<bool> whole_ = false;
};

}  // namespace s3oram
