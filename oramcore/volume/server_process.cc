// Spawns one s3oramfs-serverd, waits until it is ready, and says how it ended.
#include "oramcore/volume/server_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/base/process.h"
#include "oramcore/base/system_error.h"

extern char** environ;

namespace s3oram {
namespace {

using Path = std::filesystem::path;

constexpr mode_t kLogMode = 0600;
// The child's descriptors are 0 to 2, this pipe, and no others, because a server must not keep
// alive anything that is open here (above all a mount's /dev/fuse).
constexpr int kReadyFd = 3;

std::string describe(int status) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  return fmt::format("signal {}", WTERMSIG(status));
}

// Makes a directory, and makes its name durable even if it exists, because the process that made it
// may have ended before it could do so.
Status make_folder(const Path& folder) {
  std::error_code error;
  if (std::filesystem::create_directory(folder, error))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  if (error) return system_failure(error.value(), "{}: making this directory", folder.string());
  return sync_directory(folder.parent_path());
}

std::vector<std::string> arguments(const Path& serverd, const Path& store, unsigned number,
                                   unsigned count, const Path& record) {
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
  if (!record.empty()) all.insert(all.end(), {"--record", record.string()});
  all.insert(all.end(), {"--exit-with-parent", "--ready-fd", std::to_string(kReadyFd)});
  return all;
}

// Uses posix_spawn, so that none of our code runs between fork and exec, where a process with
// threads may do almost nothing.
int spawn_server(const std::vector<std::string>& args, const Path& folder, const Path& log,
                 int ready, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK,
                                     kLogMode);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ready, kReadyFd);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, kReadyFd + 1);
  ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());

  // Gives the child default signals and a session of its own: Ctrl-C on a terminal is for the
  // client, which still needs its servers in order to end well.
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

// Maps a server's exit code to an error of the vault: a fault of its store is a fault of the vault.
Errc why_it_ended(int status) {
  const Errc code = WIFEXITED(status) ? static_cast<Errc>(WEXITSTATUS(status)) : Errc::failed;
  switch (code) {
    case Errc::damaged_vault:
    case Errc::unsupported:
    case Errc::wrong_volume:
    case Errc::disk_full:
      return code;
    default:
      return Errc::unreachable;
  }
}

}  // namespace

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

ServerProcess::ServerProcess(Path program, Path vault, unsigned number, unsigned count, Path record)
    : program_(std::move(program)),
      vault_(std::move(vault)),
      store_(vault_ / "servers" / std::to_string(number)),
      log_(vault_ / "run" / fmt::format("server-{}.log", number)),
      record_(std::move(record)),
      number_(number),
      count_(count) {}

Status ServerProcess::launch() {
  const Path run = vault_ / "run";
  S3O_TRY(make_folder(run));
  S3O_TRY(make_folder(store_.parent_path()));
  S3O_TRY(make_folder(store_));
  std::error_code error;
  std::filesystem::remove(run / fmt::format("{}.sock", number_), error);  // left by a killed server
  log_start_ = std::filesystem::file_size(log_, error);
  if (error) log_start_ = 0;

  Descriptor pipe[2];
  if (!open_pipe(pipe)) return system_failure(errno, "starting server {}", number_);
  ready_ = std::move(pipe[0]);
  // Moved above the descriptors that the child's own files take.
  Descriptor ready(::fcntl(pipe[1].get(), F_DUPFD_CLOEXEC, kReadyFd + 1));
  int failed = ready.get() < 0 ? errno
                               : spawn_server(arguments(program_, store_, number_, count_, record_),
                                              run, log_, ready.get(), pid_);
  if (failed == 0) {
    handle_ = open_process(pid_);
    if (handle_.get() >= 0) return {};
    failed = errno;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
  ready_.close();
  return fail(code_of(failed), "starting server {}: {} (in {}): {}", number_, program_.string(),
              run.string(), reason_not_started(failed));
}

bool ServerProcess::take_readiness() {
  char byte = 0;
  const bool ready = ::read(ready_.get(), &byte, 1) == 1;
  ready_.close();
  return ready;
}

Status ServerProcess::await_ready(SteadyTime deadline) {
  const bool news = await_readable(ready_.get(), deadline);
  if (news && take_readiness()) return {};
  ready_.close();
  if (news && reap(deadline)) {  // it closed its end of the pipe: it has ended, or is about to
    Error error{why_it_ended(status_),
                fmt::format("server {} ended while starting {}", number_, end())};
    if (error.code == Errc::damaged_vault)
      error.message += fmt::format(
          "; to repair its shares from the other servers: move control.db* and slots away from "
          "{}, and run s3oramfs repair --server {} {}",
          store_.string(), number_, shell_word(vault_));
    status_ = 0;  // reported here, and not again when all are stopped
    return fail(std::move(error));
  }
  return fail(Errc::unreachable, "server {} did not start in time: {}; its log is {}", number_,
              last_log_line(), log_.string());
}

std::string ServerProcess::last_log_line() const {
  std::ifstream log(log_);
  log.seekg(static_cast<std::streamoff>(log_start_));
  std::string last = "it said nothing";
  for (std::string line; std::getline(log, line);)
    if (!line.empty()) last = line;
  return last;
}

bool ServerProcess::reap(SteadyTime deadline) {
  if (pid_ < 0) return true;
  if (!await_readable(handle_.get(), deadline)) return false;
  pid_t reaped = 0;
  do {
    reaped = ::waitpid(pid_, &status_, 0);
  } while (reaped < 0 && errno == EINTR);
  pid_ = -1;
  handle_.close();
  return true;
}

void ServerProcess::signal(int number) {
  if (pid_ >= 0) ::kill(pid_, number);
}

// SIGTERM kills a server only while it is not ready yet, when it has nothing to lose.
bool ServerProcess::ended_well() const {
  return status_ == 0 || (WIFSIGNALED(status_) && WTERMSIG(status_) == SIGTERM);
}

std::string ServerProcess::end() const {
  return fmt::format("({}): {}; its log is {}", describe(status_), last_log_line(), log_.string());
}

}  // namespace s3oram
