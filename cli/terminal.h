// Shows people the progress of long tasks.
#pragma once

#include <chrono>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// Returns whether stderr is a terminal.
bool at_terminal();

/// Returns the columns of the terminal on stderr; 80 if they are not known.
unsigned terminal_width();

/// Returns a line of at most `width` columns. A text that is too long first loses what is in
/// parentheses, and then its end.
std::string fitted(std::string text, std::size_t width);

/// Shows on stderr that a task is still in progress. On a terminal it shows one line after a
/// second, and rewrites it every second; elsewhere it writes a line every 10 s.
class Progress {
 public:
  explicit Progress(std::string doing) : doing_(std::move(doing)) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Call it often. `detail` is shown after the name of the task.
  void update(const std::string& detail = {});
  /// Writes a line that stays on the screen.
  void note(const std::string& line);

 private:
  using Time = std::chrono::steady_clock;
  std::string doing_;
  Time::time_point start_ = Time::now();
  const std::chrono::seconds every_{at_terminal() ? 1 : 10};
  std::chrono::seconds next_ = every_;  // when to write again, since the start
  bool line_open_ = false;
};

}  // namespace s3oram
