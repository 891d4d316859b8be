// Room kept back on a party's disk, so that what gives room back (deleting, deciding) can still be
// written when the disk is full (Rule::ballast). One thread at a time, but for whole().
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>

#include "oramcore/base/disk.h"

namespace s3oram {

class Ballast {
 public:
  /// Keeps `bytes` in the file `path`. A disk that is full at once is no error: see whole().
  static Result<std::unique_ptr<Ballast>> open(Disk& disk, const std::filesystem::path& path,
                                               std::uint64_t bytes);

  /// Before anything is open there: what was kept in `path` is given up if the disk has hardly any
  /// other room. (What SQLite maps, a full disk ends the process for.)
  static void release_if_full(const std::filesystem::path& path);

  /// Gives the room to whoever writes next. False if there was none left to give.
  bool release();
  /// Takes the room again, if there is enough.
  bool restore();
  /// Keeps so many bytes from now on, if there is room for them; otherwise as many as before, and
  /// false.
  bool enlarge(std::uint64_t bytes);
  /// Nothing that only adds to the disk should be begun while it is not.
  bool whole() const { return whole_; }

 private:
  Ballast(std::unique_ptr<File> file, std::uint64_t bytes)
      : file_(std::move(file)), bytes_(bytes) {}
  std::unique_ptr<File> file_;
  std::uint64_t bytes_;
  std::atomic<bool> whole_ = false;
};

}  // namespace s3oram
