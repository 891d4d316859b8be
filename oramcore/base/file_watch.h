// Notices that the name of an open file leads to another file, or that the file was truncated,
// because data written to it would be lost when the program ends. The name is looked up from a
// directory that is held open, because a vault may be moved while it is mounted.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <memory>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Thread-safe, except for moves.
class FileWatch {
 public:
  enum class Size { never_shrinks, may_shrink };
  /// The directory that may be moved: the file's own, or the one above it. With the_one_above,
  /// replacing the file's directory counts as replacing the file.
  enum class From { its_directory, the_one_above };

  /// Watches nothing; check() succeeds.
  FileWatch() = default;
  /// Watches the file to which `path` leads now; watches nothing if there is none.
  explicit FileWatch(std::filesystem::path path, Size size = Size::never_shrinks,
                     From from = From::its_directory);

  bool watches() const { return seen_ != nullptr; }
  /// Checks the file. Errors, with its name: damaged_vault (it was removed, replaced or truncated),
  /// failed (its file system is mounted read-only).
  Status check() const;

 private:
  struct Seen {
    dev_t device;
    ino_t inode;
    std::atomic<std::uint64_t> size;  // the largest so far
    Descriptor directory;
    Descriptor own;  // the file itself; `directory` may be on another file system
  };
  std::filesystem::path path_, name_;  // name_: relative to the directory
  Size size_ = Size::never_shrinks;
  std::unique_ptr<Seen> seen_;
};

}  // namespace s3oram
