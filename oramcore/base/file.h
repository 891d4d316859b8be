// Disks are passed in: a File is what a party needs of one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// A file of bytes. Methods may be called from several threads at once.
class File {
 public:
  virtual ~File() = default;
  /// Reads exactly out.size() bytes; what lies beyond the end of the file reads as zero.
  virtual Status read(std::uint64_t offset, MutView out) = 0;
  virtual Status write(std::uint64_t offset, View data) = 0;
  /// After success everything written before the call survives a power cut. After a failure
  /// nothing is known of it, and asking again must not be taken for an answer.
  virtual Status sync() = 0;
};

/// A file of the operating system, made if it is not there. It is sparse where not written.
Result<std::unique_ptr<File>> open_file(const std::filesystem::path& path);

}  // namespace s3oram
