// Fits text to the width of the terminal, and prints the progress of long tasks on it.
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <string_view>
#include <utility>

namespace s3oram {
namespace {

/// Returns the text without its parts in parentheses.
std::string without_asides(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = text.find(" (", at);
    const auto end = begin == std::string::npos ? begin : text.find(')', begin);
    if (end == std::string::npos) return out + text.substr(at);
    out += text.substr(at, begin - at);
    at = end + 1;
  }
  return out;
}

}  // namespace

bool at_terminal() { return ::isatty(STDERR_FILENO) == 1; }

unsigned terminal_width() {
  winsize size{};
  constexpr unsigned kUsual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

std::string fitted(std::string text, std::size_t width) {
  constexpr std::string_view kMore = "...";
  if (text.size() > width) text = without_asides(text);
  if (text.size() <= width) return text;
  std::size_t kept = width - std::min(width, kMore.size());
  while (kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xc0) == 0x80) --kept;  // UTF-8
  return text.substr(0, kept) + std::string(kMore.substr(0, width - kept));
}

Progress::~Progress() {
  if (line_open_) std::cerr << "\r\033[K" << std::flush;
}

void Progress::note(const std::string& line) {
  std::cerr << (std::exchange(line_open_, false) ? "\r\033[K" : "") << line << std::endl;
}

void Progress::update(const std::string& detail) {
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(Time::now() - start_);
  if (passed < next_) return;
  const std::string text = detail.empty() ? doing_ : doing_ + ": " + detail;
  const std::string time = fmt::format(" ({} s)", passed.count());
  if (at_terminal()) {
    const std::size_t room = std::max<std::size_t>(terminal_width(), 20) - 1 - time.size();
    std::cerr << "\r\033[K" << fitted(text, room) << time << std::flush;
    line_open_ = true;
  } else {
    std::cerr << text << time << "\n";
  }
  next_ = passed + every_;
}

}  // namespace s3oram
