// A party opens all its files and databases through a Disk that is passed in, so that a simulator
// can control them, make them fail, and cut their power.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "oramcore/base/file.h"

namespace s3oram {

class PageKey;

/// Thread-safe.
class Disk {
 public:
  virtual ~Disk() = default;

  /// Opens a file, and makes it if it does not exist; its name is then durable. A new file is
  /// sparse. Errors: disk_full, failed.
  virtual Result<std::unique_ptr<File>> open(const std::filesystem::path& path) = 0;

  /// Returns whether the name exists.
  virtual bool exists(const std::filesystem::path& path) = 0;

  /// Returns the name of the SQLite VFS for this disk's files; empty for SQLite's default.
  virtual std::string sqlite_vfs() const { return {}; }

  /// Returns the key that seals the pages of databases (db/page_vfs.h); null if they are plain.
  virtual const PageKey* page_key() const { return nullptr; }

  /// Called when the durable step `name` (a transaction, or the sync of the file with that name) is
  /// about to begin, and with `done` when it would survive a power cut. Not called with `done` for
  /// a step that failed.
  virtual void step([[maybe_unused]] std::string_view name, [[maybe_unused]] bool done) {}
};

/// Returns the operating system's disk.
Disk& system_disk();

}  // namespace s3oram
