// Disks are passed in: all files and databases of a party are opened through its Disk, so that a
// simulator can own them, fail them, and cut their power.
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

  /// A file, made if it is not there; its name is then durable. It is sparse where not written.
  /// Errors: disk_full, failed.
  virtual Result<std::unique_ptr<File>> open(const std::filesystem::path& path) = 0;

  /// Whether there is something of that name.
  virtual bool exists(const std::filesystem::path& path) = 0;

  /// The SQLite VFS that has this disk's files, as SQLite knows it by name; empty for the default.
  virtual std::string sqlite_vfs() const { return {}; }

  /// The key that the pages of databases are sealed with (db/page_vfs.h); null: they are plain.
  virtual const PageKey* page_key() const { return nullptr; }

  /// The durable step `name` (a transaction, or the sync of the file of that name) is about to
  /// begin, or is done: what it did survives a power cut. A failed step is never done.
  virtual void step([[maybe_unused]] std::string_view name, [[maybe_unused]] bool done) {}
};

/// The operating system's.
Disk& system_disk();

}  // namespace s3oram
