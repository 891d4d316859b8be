// How far something long has come, as a bar on one line of a terminal; nothing elsewhere.
#pragma once

#include <chrono>
#include <string>

namespace s3oram {

class ProgressBar {
 public:
  ProgressBar();
  /// Leaves an empty line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done` from 0 to 1. Call it often: it writes only now and then.
  void show(double done, const std::string& doing);

 private:
  const bool shown_;
  std::string last_doing_;
  std::chrono::steady_clock::time_point next_{};
};

/// "[#####     ]  50 % doing", at most `width` columns.
std::string bar_text(double done, const std::string& doing, unsigned width);

}  // namespace s3oram
