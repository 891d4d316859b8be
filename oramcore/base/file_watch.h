// Notices that the file which a program has open is not the one that its name leads to any more, or
// has lost its end: what is written to it then is lost when the program ends. The name is looked
// for from a directory that is held open, because a vault may be moved while it is mounted.
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
  /// The directory that may be moved: that of the file, or the one above, if another directory in
  /// the place of the file's is another file.
  enum class From { its_directory, the_one_above };

  /// Watches nothing: check() is ok.
  FileWatch() = default;
  /// Watches the file that `path` leads to now; nothing if it leads to none.
  explicit FileWatch(std::filesystem::path path, Size size = Size::never_shrinks,
                     From from = From::its_directory);

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
  std::filesystem::path path_, name_;  // name_: from the directory
  Size size_ = Size::never_shrinks;
  std::unique_ptr<Seen> seen_;
};

}  // namespace s3oram
