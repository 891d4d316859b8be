// What a party needs of a file; Disk (disk.h) opens them.
#pragma once

#include <cstdint>
#include <limits>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// A file of bytes. Methods may be called from several threads at once.
class File {
 public:
  virtual ~File() = default;
  /// Reads exactly out.size() bytes; what lies beyond the end of the file reads as zero.
  virtual Status read(std::uint64_t offset, MutableByteSpan out) = 0;
  /// Errors: disk_full, failed.
  virtual Status write(std::uint64_t offset, ByteSpan data) = 0;
  /// After success everything written before the call survives a power cut. After a failure
  /// nothing is known of it, and asking again must not be taken for an answer.
  virtual Status sync() = 0;
  /// Waits until the disk has taken the range, so that no sync, of whatever file, stands behind it
  /// for long. Promises nothing: what has gone wrong, sync() tells.
  virtual void write_out([[maybe_unused]] std::uint64_t offset,
                         [[maybe_unused]] std::uint64_t length) {}
  /// After success, writes below `size` bytes do not fail for want of space. What is read does not
  /// change. Where the file system cannot do that, it succeeds too, after one line in the log.
  /// Errors: disk_full (what was reserved before stays so), failed.
  virtual Status reserve(std::uint64_t size) = 0;
  /// How large the disk has room for it to be, now, with what it has already.
  virtual std::uint64_t largest() { return std::numeric_limits<std::int64_t>::max(); }
  /// How many bytes it has.
  virtual Result<std::uint64_t> size() = 0;
  /// Whether what is written here can be found again by the file's name. Errors: damaged_vault (it
  /// was removed, replaced or cut short by somebody else), failed (it cannot be written).
  virtual Status still_there() { return {}; }
  /// Ends the file at `size`; the room behind is given back.
  virtual Status truncate(std::uint64_t size) = 0;
};

}  // namespace s3oram
