// Limits log lines that would be repeated while a condition lasts.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>

namespace s3oram {

/// Lets one line through per interval, and counts the others. Not thread-safe.
class LogLimit {
 public:
  explicit LogLimit(std::chrono::nanoseconds every = std::chrono::seconds(30)) : every_(every) {}

  /// Returns whether to write the line now; true for the first one. `now` may come from any clock
  /// that does not go back.
  bool pass(std::chrono::nanoseconds now) {
    if (next_ && now < *next_) {
      ++withheld_;
      return false;
    }
    next_ = now + every_;
    more_ = withheld_ == 0 ? "" : fmt::format(" ({} more such lines were left out)", withheld_);
    withheld_ = 0;
    return true;
  }
  /// Returns the text to append to the line that was let through.
  const std::string& more() const { return more_; }

 private:
  const std::chrono::nanoseconds every_;
  std::optional<std::chrono::nanoseconds> next_;
  unsigned withheld_ = 0;
  std::string more_;
};

}  // namespace s3oram
