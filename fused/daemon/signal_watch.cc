// Passes signals through a pipe to the thread that acts on them.
#include "fused/daemon/signal_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "oramcore/base/system_error.h"
#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

constexpr std::array kWatched = {SIGTERM, SIGINT, SIGXCPU, SIGUSR1};

int signal_pipe[2] = {-1, -1};

void notify(char which) {
  const int saved = errno;
  // If the pipe is full the write fails, but the pipe holds thousands of signals, and one is
  // enough.
  [[maybe_unused]] const ssize_t sent = ::write(signal_pipe[1], &which, 1);
  errno = saved;
}

void mask_watched(int how) {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int number : kWatched) ::sigaddset(&watched, number);
  ::pthread_sigmask(how, &watched, nullptr);
}

}  // namespace

Status SignalWatch::install() {
  if (::pipe2(signal_pipe, O_CLOEXEC) != 0) return system_failure(errno, "pipe");
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int number) { notify(static_cast<char>(number)); };
  for (const int number : kWatched) sigaction(number, &action, nullptr);
  for (const int number : {SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  mask_watched(SIG_UNBLOCK);
  return {};
}

void SignalWatch::hold() { mask_watched(SIG_BLOCK); }

void SignalWatch::end_mount() { notify(SIGTERM); }

Status SignalWatch::start(Handler handler) {
  auto thread = start_thread("signals", [handler = std::move(handler)] {
    for (char which = 0;;) {
      while (::read(signal_pipe[0], &which, 1) < 0 && errno == EINTR) continue;
      if (which == 0) return;
      handler(which);
    }
  });
  if (!thread) return fail(std::move(thread).error());
  thread_ = std::move(*thread);
  return {};
}

SignalWatch::~SignalWatch() {
  if (!thread_.joinable()) return;
  notify(0);
  thread_.join();
}

}  // namespace s3oram
