// How many bytes of file data a local vault's disk still takes, for blocks without room so far.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

namespace s3oram {

/// Any thread. Asks the disk at most once a second.
class FreeSpace {
 public:
  /// A byte of file data takes `expansion` bytes at `directory`.
  FreeSpace(std::filesystem::path directory, std::uint64_t expansion)
      : directory_(std::move(directory)), expansion_(expansion) {}
  std::uint64_t bytes();

 private:
  const std::filesystem::path directory_;
  const std::uint64_t expansion_;
  std::atomic<std::int64_t> asked_ = -1;  // s, of the steady clock
  std::atomic<std::uint64_t> bytes_ = 0;
};

}  // namespace s3oram
