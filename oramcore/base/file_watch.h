// Notices that the file which a program has open is not the one that its name leads to any more, or
// has lost its end: what is written to it then is lost when the program ends. Where the whole
// path leads to nothing, the name is looked for in the directory where it was: a vault may be moved
// while it is mounted. Where it leads to another file, that one has taken its place.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <memory>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Thread-safe, but for moves.
class FileWatch {
 public:
  enum class Size { never_shrinks, may_shrink };

  /// Watches nothing: check() is ok.
  FileWatch() = default;
  /// Watches the file that `path` leads to now; nothing if it leads to none.
  explicit FileWatch(std::filesystem::path path, Size size = Size::never_shrinks);

  bool watches() const { return seen_ != nullptr; }
  /// Errors: damaged_vault (it was removed, replaced or cut short), failed (its file system is
  /// mounted read-only), naming the file.
  Status check() const;

 private:
  struct Seen {
    dev_t device;
    ino_t inode;
    std::atomic<std::uint64_t> size;  // the largest so far
    Descriptor directory;
  };
  std::filesystem::path path_;
  Size size_ = Size::never_shrinks;
  std::unique_ptr<Seen> seen_;
};

}  // namespace s3oram
