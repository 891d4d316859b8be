#include "cli/terminal.h"

#include <fcntl.h>
#include <sodium.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

namespace s3oram {
namespace {

// The terminal of the session, with its echo off; on again when this dies. Signals by key are off
// meanwhile: one would end the program and leave the terminal without echo.
class QuietTerminal {
 public:
  QuietTerminal() : fd_(::open("/dev/tty", O_RDWR | O_CLOEXEC)) {
    if (fd_ < 0 || ::tcgetattr(fd_, &former_) != 0) return;
    termios quiet = former_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ISIG);
    quiet.c_cc[VEOL] = quiet.c_cc[VINTR];  // hands the line over at once
    quiet_ = ::tcsetattr(fd_, TCSAFLUSH, &quiet) == 0;
  }
  ~QuietTerminal() {
    if (quiet_) ::tcsetattr(fd_, TCSAFLUSH, &former_);
    if (fd_ >= 0) ::close(fd_);
  }
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;
  bool usable() const { return quiet_; }

  bool say(std::string_view text) {
    return ::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  /// Up to the end of the line. False at the end of the input, and if interrupted.
  bool read_line(std::string& line) {
    for (char c = 0;;) {
      const ssize_t got = ::read(fd_, &c, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 || c == static_cast<char>(former_.c_cc[VINTR])) return false;
      if (c == '\n') return true;
      line.push_back(c);
    }
  }

 private:
  int fd_;
  termios former_{};
  bool quiet_ = false;
};

}  // namespace

bool at_terminal() { return ::isatty(STDERR_FILENO) == 1; }

Result<std::string> ask_passphrase(const std::string& prompt) {
  QuietTerminal terminal;
  if (!terminal.usable())
    return fail(Errc::usage,
                "no terminal to ask for the passphrase on: give --passfile FILE or --keyfile FILE");
  std::string line;
  line.reserve(1024);  // no copies left behind by growing
  const bool read = terminal.say(prompt) && terminal.read_line(line) && terminal.say("\n");
  if (read) return line;
  sodium_memzero(line.data(), line.size());
  return fail(Errc::usage, "no passphrase was typed");
}

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
    next_ = passed + std::chrono::seconds(1);
  } else {
    std::cerr << text << "\n";
    next_ = passed + std::chrono::seconds(10);
  }
}

}  // namespace s3oram
