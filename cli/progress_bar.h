// Shows the progress of a long task as a bar on one line of a terminal. Shows nothing if stderr is
// not a terminal.
#pragma once

#include <chrono>
#include <string>

namespace s3oram {

class ProgressBar {
 public:
  ProgressBar();
  /// Clears the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows the part `done`, from 0 to 1. Call it often; it writes only now and then.
  void show(double done, const std::string& doing);

 private:
  const bool shown_;
  std::string last_doing_;
  std::chrono::steady_clock::time_point next_{};
};

/// Returns "[#####     ]  50 % doing", at most `width` columns wide.
std::string bar_text(double done, const std::string& doing, unsigned width);

}  // namespace s3oram
