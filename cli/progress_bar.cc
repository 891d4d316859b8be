// Draws a progress bar on one line of the terminal.
#include "cli/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "cli/terminal.h"

namespace s3oram {
namespace {

constexpr std::chrono::milliseconds kEvery{100};
constexpr std::size_t kBarWidth = 24;

}  // namespace

std::string bar_text(double done, const std::string& doing, unsigned width) {
  const double part = std::clamp(done, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(part * kBarWidth);
  std::string text = fmt::format("[{}{}] {:3.0f} % {}", std::string(full, '#'),
                                 std::string(kBarWidth - full, ' '), part * 100, doing);
  if (text.size() > width) text.resize(width);
  return text;
}

ProgressBar::ProgressBar() : shown_(at_terminal()) {}

ProgressBar::~ProgressBar() {
  if (shown_ && !last_doing_.empty()) std::cerr << "\r\033[K" << std::flush;
}

void ProgressBar::show(double done, const std::string& doing) {
  if (!shown_) return;
  const auto now = std::chrono::steady_clock::now();
  if (doing == last_doing_ && now < next_) return;
  last_doing_ = doing;
  next_ = now + kEvery;
  std::cerr << "\r\033[K" << bar_text(done, doing, terminal_width() - 1) << std::flush;
}

}  // namespace s3oram
