// Reports how many bytes are free on the disk that a directory lies on.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

namespace s3oram {

/// May be used on any thread. Asks the disk at most once a second. A disk that does not answer
/// counts as large.
class FreeSpace {
 public:
  explicit FreeSpace(std::filesystem::path directory) : directory_(std::move(directory)) {}
  std::uint64_t bytes();

 private:
  const std::filesystem::path directory_;
  std::atomic<std::int64_t> asked_ = -1;  // s, of the steady clock
  std::atomic<std::uint64_t> bytes_ = std::uint64_t{1} << 46;
};

}  // namespace s3oram
