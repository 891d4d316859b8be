#include "fused/passphrase.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace s3oram {
namespace {

/// Reads a line without echo. The echo comes back whatever happens to the line.
Result<std::string> ask(int terminal, const std::string& prompt) {
  termios before{};
  if (::tcgetattr(terminal, &before) != 0)
    return fail(Errc::failed, "/dev/tty: {}", std::strerror(errno));
  termios silent = before;
  silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  ::tcsetattr(terminal, TCSAFLUSH, &silent);
  bool fine = ::write(terminal, prompt.data(), prompt.size()) >= 0;
  std::string line;
  for (char c = 0; fine;) {
    const ssize_t got = ::read(terminal, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    fine = got > 0;
    if (!fine || c == '\n') break;
    line.push_back(c);
  }
  ::tcsetattr(terminal, TCSAFLUSH, &before);
  if (::write(terminal, "\n", 1) < 0) fine = false;
  if (!fine) return fail(Errc::failed, "/dev/tty: no passphrase was typed");
  return line;
}

/// Of systemd.exec(5): LoadCredential=s3oramfs.passphrase:FILE and its like. Empty if there is
/// none.
std::filesystem::path passphrase_credential() {
  const char* folder = std::getenv("CREDENTIALS_DIRECTORY");
  if (!folder) return {};
  auto file = std::filesystem::path(folder) / "s3oramfs.passphrase";
  std::error_code error;
  return std::filesystem::exists(file, error) ? file : std::filesystem::path{};
}

Result<std::string> first_line(const std::filesystem::path& file, const char* what) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line))
    return fail(Errc::usage, "{} {}: its first line cannot be read", what, file.string());
  return line;
}

}  // namespace

Result<std::string> read_passphrase(const std::filesystem::path& file, const std::string& prompt) {
  if (!file.empty()) return first_line(file, "--passfile");
  if (const auto credential = passphrase_credential(); !credential.empty())
    return first_line(credential, "credential");
  const int terminal = ::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0)
    return fail(Errc::usage,
                "this vault needs a passphrase and there is no terminal to ask on: use --passfile");
  auto line = ask(terminal, prompt);
  ::close(terminal);
  return line;
}

}  // namespace s3oram
