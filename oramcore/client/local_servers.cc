#include "oramcore/client/local_servers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

extern char** environ;

namespace s3oram {
namespace {

using Path = std::filesystem::path;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr mode_t kLogMode = 0600;
// In the child: 0 to 2 as always, then the pipe, and nothing above. Whatever else is open here
// (a mount's /dev/fuse above all) must not be kept alive by a server.
constexpr int kReadyFd = 3;

SteadyTime after(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

// Whether `fd` became readable (or its other end closed) before the deadline.
bool await_readable(int fd, SteadyTime deadline) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::minutes(1);  // poll takes an int
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const auto now = std::clamp(left, std::chrono::milliseconds(0), kLongest);
    pollfd wanted{fd, POLLIN, 0};
    const int rc = ::poll(&wanted, 1, static_cast<int>(now.count()));
    if (rc > 0) return true;
    if (rc < 0 && errno != EINTR) return false;
    if (rc == 0 && left <= kLongest) return false;
  }
}

// The C library of Debian 12 declares its pidfd_open without C linkage.
int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

void close_once(int& fd) {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

// SIGTERM ends only a server that is not ready yet, and has nothing to lose.
bool ended_well(int status) {
  return status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

std::string describe(int status) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  return fmt::format("signal {}", WTERMSIG(status));
}

Status make_folder(const Path& folder) {
  std::error_code error;
  if (std::filesystem::create_directories(folder, error))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  if (error)
    return fail(Errc::failed, "{}: making this directory: {}", folder.string(), error.message());
  return {};
}

std::vector<std::string> arguments(const Path& serverd, const Path& store, unsigned number,
                                   unsigned count) {
  std::vector<std::string> all{serverd.string(),
                               "--store",
                               store.string(),
                               "--index",
                               std::to_string(number),
                               "--listen",
                               fmt::format("ipc://{}.sock", number)};
  for (unsigned other = 1; other <= count; ++other) {
    if (other == number) continue;
    all.push_back("--peer");
    all.push_back(fmt::format("{}=ipc://{}.sock", other, other));
  }
  all.insert(all.end(), {"--exit-with-parent", "--ready-fd", std::to_string(kReadyFd)});
  return all;
}

// posix_spawn leaves nothing to do between fork and exec, where almost nothing is allowed to a
// process with threads.
int spawn_server(const std::vector<std::string>& args, const Path& folder, const Path& log,
                 int ready, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, kLogMode);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ready, kReadyFd);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, kReadyFd + 1);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());

  // Signals as after login, and a session of its own: Ctrl-C on a terminal is for the client, which
  // still needs its servers to end well.
  sigset_t none;
  sigset_t every;
  ::sigemptyset(&none);
  ::sigfillset(&every);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &every);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);

  std::vector<char*> argv;
  for (const auto& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const int error =
      ::posix_spawn(&pid, args[0].c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

Result<LocalServers> LocalServers::start(const Path& serverd, const Path& vault_directory,
                                         unsigned count, LocalServersPatience patience) {
  std::error_code error;
  const Path vault = std::filesystem::absolute(vault_directory, error);
  const Path program = std::filesystem::absolute(serverd, error);
  if (error) return fail(Errc::failed, "{}: {}", vault_directory.string(), error.message());
  S3O_TRY(make_folder(vault / "run"));

  LocalServers servers(patience);
  const auto deadline = after(patience.start);
  for (unsigned number = 1; number <= count; ++number)
    S3O_TRY(servers.launch(program, vault, number, count));
  for (auto& child : servers.children_) S3O_TRY(servers.await_ready(child, deadline));
  return servers;
}

Status LocalServers::launch(const Path& serverd, const Path& vault, unsigned number,
                            unsigned count) {
  const Path run = vault / "run";
  const Path store = vault / "servers" / std::to_string(number);
  S3O_TRY(make_folder(store));
  std::error_code error;
  std::filesystem::remove(run / fmt::format("{}.sock", number), error);  // of a killed server

  Child child;
  child.number = number;
  child.log = run / fmt::format("server-{}.log", number);
  child.log_start = std::filesystem::file_size(child.log, error);
  if (error) child.log_start = 0;

  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    return fail(Errc::failed, "starting server {}: {}", number, std::strerror(errno));
  child.ready = pipe[0];
  // Above the descriptors that the child's own files take.
  int ready = ::fcntl(pipe[1], F_DUPFD_CLOEXEC, kReadyFd + 1);
  ::close(pipe[1]);
  int failed = ready < 0 ? errno
                         : spawn_server(arguments(serverd, store, number, count), run, child.log,
                                        ready, child.pid);
  close_once(ready);
  if (failed == 0) {
    child.handle = open_pidfd(child.pid);
    failed = child.handle < 0 ? errno : 0;
    if (child.handle >= 0) {
      children_.push_back(child);
      return {};
    }
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
  }
  close_once(child.ready);
  return fail(Errc::failed, "starting server {}: {} (in {}): {}", number, serverd.string(),
              run.string(), std::strerror(failed));
}

Status LocalServers::await_ready(Child& child, SteadyTime deadline) {
  const bool news = await_readable(child.ready, deadline);
  char byte = 0;
  const bool ready = news && ::read(child.ready, &byte, 1) == 1;
  close_once(child.ready);
  if (ready) return {};
  if (news && reap(child, deadline)) {  // it closed its end: it has ended, or is about to
    const int status = std::exchange(child.status, 0);  // told here, not by stop() again
    return fail(Errc::unreachable, "server {} ended while starting ({}): {}; its log is {}",
                child.number, describe(status), last_log_line(child), child.log.string());
  }
  return fail(Errc::unreachable, "server {} did not start in time: {}; its log is {}", child.number,
              last_log_line(child), child.log.string());
}

std::string LocalServers::last_log_line(const Child& child) {
  std::ifstream log(child.log);
  log.seekg(static_cast<std::streamoff>(child.log_start));
  std::string last = "it said nothing";
  for (std::string line; std::getline(log, line);)
    if (!line.empty()) last = line;
  return last;
}

// Whether the child has ended before the deadline.
bool LocalServers::reap(Child& child, SteadyTime deadline) {
  if (child.pid < 0) return true;
  if (!await_readable(child.handle, deadline)) return false;
  pid_t reaped = 0;
  do {
    reaped = ::waitpid(child.pid, &child.status, 0);
  } while (reaped < 0 && errno == EINTR);
  child.pid = -1;
  close_once(child.handle);
  return true;
}

bool LocalServers::running(unsigned number) {
  return number >= 1 && number <= children_.size() &&
         !reap(children_[number - 1], std::chrono::steady_clock::now());
}

Status LocalServers::stop() {
  const auto deadline = after(patience_.stop);
  std::string problems;
  for (const auto& child : children_)
    if (child.pid >= 0) ::kill(child.pid, SIGTERM);
  for (auto& child : children_) {
    if (!reap(child, deadline)) {
      ::kill(child.pid, SIGKILL);
      reap(child, SteadyTime::max());
    }
    close_once(child.ready);  // not before: a server that cannot report would call it a failure
    if (!ended_well(child.status))
      problems += fmt::format("{}server {} did not end well ({}): {}; its log is {}",
                              problems.empty() ? "" : "; ", child.number, describe(child.status),
                              last_log_line(child), child.log.string());
  }
  children_.clear();
  if (!problems.empty()) return fail(Errc::failed, "{}", problems);
  return {};
}

LocalServers& LocalServers::operator=(LocalServers&& other) noexcept {
  std::swap(patience_, other.patience_);
  std::swap(children_, other.children_);
  return *this;
}

LocalServers::~LocalServers() {
  if (const auto status = stop(); !status) spdlog::error("{}", status.error().message);
}

}  // namespace s3oram
