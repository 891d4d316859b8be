// The servers of a local vault: child processes that live as long as the vault is mounted.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

/// How long to wait for the servers before giving up on them.
struct LocalServersPatience {
  std::chrono::milliseconds start{20'000};
  std::chrono::milliseconds stop{20'000};  // then they are killed
};

/// Use it from one thread at a time. start() must be called on a thread that lives as long as the
/// servers are wanted: the kernel stops them when that thread ends, however it ends.
class LocalServers {
 public:
  /// Starts servers 1..count and returns when all of them listen, at ipc://N.sock in
  /// `vault_directory`/run. They run the program `serverd`, keep their shares in
  /// `vault_directory`/servers/N, and append their logs to run/server-N.log. The vault must be
  /// locked by the caller. No server is left behind on an error.
  /// Errors: unreachable (a server did not come up: with the last line of its log), failed.
  static Result<LocalServers> start(const std::filesystem::path& serverd,
                                    const std::filesystem::path& vault_directory, unsigned count,
                                    LocalServersPatience patience = {});

  /// Stops all servers and waits for them. An error says which one did not end well; all of them
  /// have ended in any case. Does nothing the second time.
  Status stop();

  /// Whether server `number` (1..count) runs.
  bool running(unsigned number);

  LocalServers(LocalServers&& other) noexcept = default;
  LocalServers& operator=(LocalServers&& other) noexcept;
  /// Stops them.
  ~LocalServers();

 private:
  struct Child {
    unsigned number = 0;
    pid_t pid = -1;   // -1: reaped
    int handle = -1;  // pidfd
    int ready = -1;   // where its readiness is read; -1 afterwards
    int status = 0;   // of waitpid, once reaped
    std::filesystem::path log;
    std::uintmax_t log_start = 0;  // size of the log before it was started
  };

  explicit LocalServers(LocalServersPatience patience) : patience_(patience) {}
  Status launch(const std::filesystem::path& serverd, const std::filesystem::path& vault_directory,
                unsigned number, unsigned count);
  Status await_ready(Child& child, std::chrono::steady_clock::time_point deadline);
  static bool reap(Child& child, std::chrono::steady_clock::time_point deadline);
  static std::string last_log_line(const Child& child);

  LocalServersPatience patience_;
  std::vector<Child> children_;
};

}  // namespace s3oram
