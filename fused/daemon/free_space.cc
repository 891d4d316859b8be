// Asks the file system for its free bytes, at most once a second.
#include "fused/daemon/free_space.h"

#include <chrono>
#include <system_error>

namespace s3oram {

std::uint64_t FreeSpace::bytes() {
  const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::steady_clock::now().time_since_epoch())
                               .count();
  if (asked_.load() != now) {
    std::error_code error;
    const auto space = std::filesystem::space(directory_, error);
    if (!error && space.capacity > 0) bytes_ = space.available;
    asked_ = now;
  }
  return bytes_;
}

}  // namespace s3oram
