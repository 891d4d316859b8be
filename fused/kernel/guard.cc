// Starts the guard process, and runs it.
#include "fused/kernel/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "oramcore/base/mountinfo.h"
#include "oramcore/base/process.h"

extern char** environ;

namespace s3oram {
namespace {

constexpr int kAbort = 3, kDaemon = 4;  // the guard's descriptors
constexpr int kEnds = 1000;             // ms that a process may take to end

/// Opens a file of fusectl through a private mount that has no mount point.
Descriptor open_unmounted(const std::string& file) {
  const Descriptor context(static_cast<int>(::syscall(SYS_fsopen, "fusectl", FSOPEN_CLOEXEC)));
  if (context.get() < 0 ||
      ::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
    return {};
  const Descriptor root(
      static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
  return Descriptor(::openat(root.get(), file.c_str(), O_WRONLY | O_CLOEXEC));
}

/// Returns whether the main thread is dead, so that all threads should end.
bool is_dying(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name = line.rfind(") ");
  return name == std::string::npos || line.compare(name, 3, ") Z") == 0;
}

}  // namespace

Descriptor Guard::abort_of(const std::filesystem::path& point) {
  const auto mount = vault_mounted_at(point);
  return mount ? abort_of(mount->connection) : Descriptor();
}

Descriptor Guard::abort_of(unsigned connection) {
  const std::string file = std::to_string(connection) + "/abort";
  Descriptor abort(::open(("/sys/fs/fuse/connections/" + file).c_str(), O_WRONLY | O_CLOEXEC));
  return abort.get() >= 0 ? std::move(abort) : open_unmounted(file);
}

void Guard::start(Descriptor abort) {
  if (abort.get() < 0) return;
  const Descriptor self = open_process(::getpid());
  // These numbers are above the guard's own, so that no descriptor is overwritten before it is
  // copied.
  const Descriptor from_abort(::fcntl(abort.get(), F_DUPFD_CLOEXEC, kDaemon + 1));
  const Descriptor from_self(::fcntl(self.get(), F_DUPFD_CLOEXEC, kDaemon + 1));
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_adddup2(&actions, from_abort.get(), kAbort);
  ::posix_spawn_file_actions_adddup2(&actions, from_self.get(), kDaemon);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, kDaemon + 1);
  ::posix_spawn_file_actions_addchdir_np(&actions, "/");
  sigset_t every;
  ::sigfillset(&every);
  ::posix_spawnattr_setsigmask(&attributes, &every);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::string name(kName), parent = std::to_string(::getpid());
  char* words[] = {name.data(), parent.data(), nullptr};
  pid_t pid = 0;
  const int error = from_self.get() < 0 ? errno
                                        : ::posix_spawn(&pid, "/proc/self/exe", &actions,
                                                        &attributes, words, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) spdlog::warn("the mount has no guard: {}", std::strerror(error));
}

int Guard::run(const char* daemon_number) {
  const pid_t daemon = std::atoi(daemon_number);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // it needs nothing but its descriptors
  ::prctl(PR_SET_PDEATHSIG, SIGUSR1);
  sigset_t death;
  ::sigemptyset(&death);
  ::sigaddset(&death, SIGUSR1);
  // The daemon may have ended before the call.
  while (!is_dying(daemon)) {
    int which = 0;
    ::sigwait(&death, &which);
  }
  pollfd ended{kDaemon, POLLIN, 0};
  if (::poll(&ended, 1, kEnds) != 0) return 0;
  return ::write(kAbort, "1", 1) == 1 ? 0 : 1;
}

}  // namespace s3oram
