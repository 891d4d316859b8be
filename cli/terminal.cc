#include "cli/terminal.h"

#include <unistd.h>

#include <iostream>

namespace s3oram {
bool at_terminal() { return ::isatty(STDERR_FILENO) == 1; }

Progress::~Progress() {
  if (line_open_) std::cerr << "\r\033[K" << std::flush;
}

void Progress::update(const std::string& detail) {
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(Time::now() - start_);
  if (passed < next_) return;
  const std::string text =
      fmt::format("{}{}{} ({} s)", doing_, detail.empty() ? "" : ": ", detail, passed.count());
  if (at_terminal()) {
    std::cerr << "\r\033[K" << text << std::flush;
    line_open_ = true;
  } else {
    std::cerr << text << "\n";
  }
  next_ = passed + every_;
}

}  // namespace s3oram
