// Reads passphrases from files, programs and the terminal, and wipes the buffers that held them.
#include "oramcore/vault/passphrase.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "oramcore/base/bytes.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/base/program.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongest = 1024;
constexpr std::size_t kMostOutput = 1 << 16;

// The terminal of the session, with its echo off until this object is destroyed. Meanwhile keys
// send no signals, and signals that would end the program are delayed, because they would leave the
// terminal without echo.
class QuietTerminal {
 public:
  QuietTerminal() : terminal_(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
      struct sigaction present {};
      if (::sigaction(number, nullptr, &present) == 0 && present.sa_handler != SIG_IGN)
        sigaddset(&ends, number);
    }
    signals_ = Descriptor(::signalfd(-1, &ends, SFD_CLOEXEC));
    sigaddset(&ends,
              SIGTTOU);  // so that the echo comes back even if another program has the terminal
    ::pthread_sigmask(SIG_BLOCK, &ends, &former_mask_);
    if (terminal_.get() < 0 || signals_.get() < 0 || ::tcgetattr(terminal_.get(), &former_) != 0)
      return;
    termios quiet = former_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ISIG);
    quiet.c_cc[VEOL] = quiet.c_cc[VINTR];  // ends the line immediately
    quiet_ = ::tcsetattr(terminal_.get(), TCSAFLUSH, &quiet) == 0;
  }
  ~QuietTerminal() {
    if (quiet_) ::tcsetattr(terminal_.get(), TCSAFLUSH, &former_);
    ::pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);  // a delayed signal ends us now
  }
  bool usable() const { return quiet_; }

  bool say(std::string_view text) {
    return ::write(terminal_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  /// Reads to the end of the line. Returns false at the end of the input, or if interrupted.
  bool read_line(std::string& line) {
    std::array<pollfd, 2> inputs{pollfd{terminal_.get(), POLLIN, 0},
                                 pollfd{signals_.get(), POLLIN, 0}};
    for (char c = 0;;) {
      const int ready = ::poll(inputs.data(), inputs.size(), -1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0 || inputs[1].revents != 0) return false;
      const ssize_t got = ::read(terminal_.get(), &c, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 || c == static_cast<char>(former_.c_cc[VINTR])) return false;
      if (c == '\n') return true;
      line.push_back(c);
    }
  }

 private:
  Descriptor terminal_, signals_;
  sigset_t former_mask_{};
  termios former_{};
  bool quiet_ = false;
};

Result<std::string> ask(const std::string& prompt, const std::string& without_terminal) {
  QuietTerminal terminal;
  if (!terminal.usable()) return fail(Errc::usage, "{}", without_terminal);
  std::string line;
  line.reserve(kLongest);  // because growing would leave copies behind
  const bool read = terminal.say(prompt) && terminal.read_line(line) && terminal.say("\n");
  if (read) return line;
  sodium_memzero(line.data(), line.size());
  return fail(Errc::usage, "no passphrase was typed");
}

// Returns the first line of `content`, without its end. Wipes the content.
Result<std::string> first_line(MutableByteSpan content, const std::string& source) {
  const auto end = std::find_if(content.begin(), content.end(),
                                [](std::uint8_t c) { return c == '\n' || c == '\r'; });
  std::string line(content.begin(), end);
  sodium_memzero(content.data(), content.size());
  if (line.empty())
    return fail(Errc::usage, "{}: the first line must be the passphrase, but it is empty", source);
  if (line.size() > kLongest)
    return fail(Errc::usage, "{}: its first line is longer than {} bytes", source, kLongest);
  return line;
}

Result<std::string> from_file(const fs::path& path) {
  S3O_ASSIGN(auto content, read_small_file(path, kMostOutput));
  return first_line(content, path.string());
}

// Runs the command and returns the first line of its output. The command shares our input and
// standard error.
Result<std::string> from_program(const std::string& command) {
  S3O_ASSIGN(auto end, run_program({"/bin/sh", "-c", command}, STDOUT_FILENO, kMostOutput));
  const std::string source = fmt::format("the passphrase program `{}`", command);
  if (end.succeeded()) return first_line(end.said, source);
  sodium_memzero(end.said.data(), end.said.size());
  if (WIFEXITED(end.status))
    return fail(Errc::failed, "{} ended with code {}", source, WEXITSTATUS(end.status));
  return fail(Errc::failed, "{} was ended by signal {}", source, WTERMSIG(end.status));
}

Result<std::string> from_source(const PassphraseSource& source) {
  return source.passfile.empty() ? from_program(source.passprog) : from_file(source.passfile);
}

/// Returns the file that systemd made for this process; empty if there is none.
fs::path manager_passphrase() {
  const char* directory = std::getenv("CREDENTIALS_DIRECTORY");
  std::error_code error;
  const fs::path credential = directory ? fs::path(directory) / kPassphraseCredential : fs::path();
  return directory && fs::exists(credential, error) ? credential : fs::path();
}

Result<std::string> not_empty(Result<std::string> text) {
  if (text && text->empty())
    return fail(Errc::usage, "an empty passphrase protects nothing, and opens nothing");
  return text;
}

}  // namespace

bool has_manager_passphrase() { return !manager_passphrase().empty(); }

Result<std::string> read_passphrase(const PassphraseSource& source, const std::string& prompt) {
  if (source.given()) return from_source(source);
  if (const fs::path credential = manager_passphrase(); !credential.empty())
    return from_file(credential);
  return not_empty(ask(
      prompt,
      "there is no terminal to ask for the passphrase on: give --passfile FILE, --passprog COMMAND "
      "or --keyfile FILE (after mount's -o: passfile=FILE and so on; see: man s3oramfs)"));
}

Result<std::string> read_new_passphrase(const PassphraseSource& source) {
  if (source.given()) return from_source(source);
  const std::string without_terminal = fmt::format(
      "there is no terminal to ask for the new passphrase on: give --{0}passfile FILE, "
      "--{0}passprog COMMAND, --{0}keyfile FILE or --no-passphrase",
      source.prefix);
  auto first = not_empty(ask("New passphrase: ", without_terminal));
  if (!first) return first;
  auto again = ask("The same again: ", without_terminal);
  if (!again) return again;
  const bool same = *first == *again;
  sodium_memzero(again->data(), again->size());
  if (same) return first;
  sodium_memzero(first->data(), first->size());
  return fail(Errc::usage, "the two passphrases differ");
}

std::string exposure_of(const fs::path& file) {
  struct stat stat {};
  if (file.empty() || ::stat(file.c_str(), &stat) != 0 || !S_ISREG(stat.st_mode)) return {};
  if ((stat.st_mode & 077) == 0) return {};
  return fmt::format("{}: others may read or change it (mode {:04o}): chmod 600 {}", file.string(),
                     stat.st_mode & 07777, shell_word(file));
}

}  // namespace s3oram
