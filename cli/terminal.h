// What the commands say to a person: progress where something takes long.
#pragma once

#include <chrono>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// Whether a person at a terminal reads what is written to stderr.
bool at_terminal();

/// The columns of the terminal on stderr; 80 where they are not known.
unsigned terminal_width();

/// A line of at most `width` columns: too long a text loses what stands in parentheses first, and
/// then its end.
std::string fitted(std::string text, std::size_t width);

/// Tells on stderr that something is still going on: on a terminal one line, after a second, that
/// is rewritten each second; elsewhere a line each 10 s.
class Progress {
 public:
  explicit Progress(std::string doing) : doing_(std::move(doing)) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Call it often; `detail` is shown after what is being done.
  void update(const std::string& detail = {});
  /// Writes a line that stays.
  void note(const std::string& line);

 private:
  using Time = std::chrono::steady_clock;
  std::string doing_;
  Time::time_point start_ = Time::now();
  const std::chrono::seconds every_{at_terminal() ? 1 : 10};
  std::chrono::seconds next_ = every_;  // since the start: when to write again
  bool line_open_ = false;
};

}  // namespace s3oram
