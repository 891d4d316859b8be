// The fork, and the pipe between the waiting parent and the daemon.
#include "fused/daemon/background.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "oramcore/base/exit_code.h"
#include "oramcore/base/human.h"
#include "oramcore/base/process.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

// Sends the child's message: its exit code as a byte, then text. The byte 0 means that the child is
// ready.
Status tell(Descriptor pipe, int code, const std::string& text) {
  const std::string message = static_cast<char>(code) + text;
  if (::write(pipe.get(), message.data(), message.size()) >= 0) return {};
  return system_failure(errno, "the command that waits for the mount was ended");
}

[[noreturn]] void await(int pipe, pid_t child, const std::function<void()>& mounted) {
  std::string message;
  char buffer[1024];
  ssize_t got = 0;
  while ((got = ::read(pipe, buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR))
    if (got > 0) message.append(buffer, static_cast<std::size_t>(got));
  if (message.empty()) {
    int status = 0;
    ::waitpid(child, &status, 0);
    const std::string how =
        WIFSIGNALED(status) ? fmt::format(" (signal {})", WTERMSIG(status)) : std::string();
    std::fprintf(stderr, "s3oramfs: the daemon died before the mount was ready%s\n", how.c_str());
    ::_exit(static_cast<int>(Errc::failed));
  }
  if (message[0] == 0) mounted();
  // The text may come from a user's files, while this process may belong to root.
  if (message.size() > 1)
    std::fprintf(stderr, "s3oramfs: %s\n", printable_lines(message.substr(1)).c_str());
  ::_exit(static_cast<unsigned char>(message[0]));
}

}  // namespace

Result<Background> Background::start(const std::function<void()>& mounted) {
  std::vector<int> inherited = open_files();
  Descriptor ends[2];
  if (!open_pipe(ends)) return system_failure(errno, "pipe");
  const pid_t child = ::fork();
  if (child < 0)
    return fail(Errc::failed, "the daemon cannot be started: {}", reason_not_started(errno));
  if (child > 0) {
    ends[1].close();
    await(ends[0].get(), child, mounted);
  }
  return Background(std::move(ends[1]), std::move(inherited));
}

void Background::say(const std::string& text) const {
  if (is_background()) std::fprintf(stderr, "s3oramfs: %s\n", printable_lines(text).c_str());
}

Status Background::ready() {
  if (!is_background()) return {};
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (null >= 0) ::dup2(null, standard);
  if (null > STDERR_FILENO) ::close(null);
  for (const int file : inherited_) ::close(file);
  return tell(std::move(pipe_), 0, "");
}

void Background::failed(const Error& error) {
  if (!is_background()) return;
  if (const Status told = tell(std::move(pipe_), exit_code(error), error.message); !told)
    spdlog::warn("{}", told.error().message);
}

}  // namespace s3oram
