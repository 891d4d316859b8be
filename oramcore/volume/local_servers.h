// The servers of a local vault: child processes that live as long as the vault is mounted.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// How long to wait for the servers before giving up on them.
struct LocalServersPatience {
  std::chrono::milliseconds start{20'000};
  std::chrono::milliseconds stop{20'000};     // afterwards they are killed
  std::chrono::milliseconds restart{200};     // before the first restart; doubled for each next one
  std::chrono::milliseconds longest{10'000};  // limit of that doubling
};

/// Thread-safe. A thread of its own starts the servers, and restarts one that ended by itself. The
/// kernel stops them when that thread ends, however this process ends.
class LocalServers {
 public:
  /// Starts servers 1..count and returns when all of them listen, at ipc://N.sock in
  /// `vault_directory`/run. They run the program `serverd`, keep their shares in
  /// `vault_directory`/servers/N, and append their logs to run/server-N.log. The vault must be
  /// locked by the caller. Server 1 records what it reads and writes in the file
  /// `record_of_first`, an absolute path, if that is not empty. No server is left behind on an
  /// error. Errors: as of a server that did not come up (ServerProcess::await_ready), failed.
  static Result<LocalServers> start(const std::filesystem::path& serverd,
                                    const std::filesystem::path& vault_directory, unsigned count,
                                    LocalServersPatience patience = {},
                                    const std::filesystem::path& record_of_first = {});

  /// Stops all servers and waits for them. They have ended even if it returns an error, which names
  /// those that did not end well or were not running. Does nothing the second time.
  Status stop();

  /// Whether server `number` (1..count) runs.
  bool running(unsigned number) const;
  /// How server `number` ended, if it does not run: "(exit code 12): LAST LINE; its log is ...";
  /// otherwise empty.
  std::string end(unsigned number) const;
  /// How often server `number` was restarted.
  unsigned restarts(unsigned number) const;

  LocalServers(LocalServers&& other) noexcept;
  LocalServers& operator=(LocalServers&& other) noexcept;
  /// Stops them.
  ~LocalServers();

 private:
  class Keeper;
  explicit LocalServers(std::unique_ptr<Keeper> keeper);
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace s3oram
