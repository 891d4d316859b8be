// A file of a party, opened by its Disk (disk.h).
#pragma once

#include <cstdint>
#include <limits>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// A file of bytes. Methods may be called from several threads concurrently.
class File {
 public:
  virtual ~File() = default;
  /// Reads exactly out.size() bytes; bytes beyond the end of the file are read as zeros.
  virtual Status read(std::uint64_t offset, MutableByteSpan out) = 0;
  /// Writes the bytes. Errors: disk_full, failed.
  virtual Status write(std::uint64_t offset, ByteSpan data) = 0;
  /// On success, everything written before the call survives a power cut. After a failure the data
  /// may be lost; a later success does not mean that it was written.
  virtual Status sync() = 0;
  /// Waits until the disk has taken the range, so that a sync of any file does not have to wait
  /// long for it. Makes nothing durable; sync() reports errors.
  virtual void write_out([[maybe_unused]] std::uint64_t offset,
                         [[maybe_unused]] std::uint64_t length) {}
  /// On success, writes below `size` bytes will not fail because the disk is full. The content does
  /// not change. If the file system cannot reserve, logs one line and succeeds. Errors: disk_full
  /// (earlier reservations stay), failed.
  virtual Status reserve(std::uint64_t size) = 0;
  /// Returns how large the file can become on this disk now, including its current size.
  virtual std::uint64_t largest() { return std::numeric_limits<std::int64_t>::max(); }
  /// Returns the size in bytes.
  virtual Result<std::uint64_t> size() = 0;
  /// Checks that the file's name still leads to the written data. Errors: damaged_vault (someone
  /// else removed, replaced or truncated the file), failed (it cannot be written).
  virtual Status still_there() { return {}; }
  /// Truncates the file to `size`, and frees the room after that.
  virtual Status truncate(std::uint64_t size) = 0;
};

}  // namespace s3oram
