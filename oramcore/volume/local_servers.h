// The servers of a local vault: child processes that run as long as the vault is mounted.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// The times to wait for the servers before giving up.
struct LocalServersPatience {
  std::chrono::milliseconds start{20'000};
  std::chrono::milliseconds stop{20'000};     // time to stop; after that, they are killed
  std::chrono::milliseconds restart{200};     // pause before the first restart; then doubled
  std::chrono::milliseconds longest{10'000};  // the limit of the doubling
};

/// Thread-safe. A dedicated thread starts the servers, and restarts a server that ended by itself.
/// The kernel stops them when that thread ends, however this process ends.
class LocalServers {
 public:
  /// Starts servers 1..count and returns when all of them listen, at ipc://N.sock in
  /// `vault_directory`/run. They run the program `serverd`, keep their shares in
  /// `vault_directory`/servers/N, and append their logs to run/server-N.log. The caller must have
  /// locked the vault. If `record_of_first`, an absolute path, is not empty, server 1 records in
  /// that file what it reads and writes. After an error, no server is left running. Errors: those
  /// of a server that did not start (ServerProcess::await_ready), failed.
  static Result<LocalServers> start(const std::filesystem::path& serverd,
                                    const std::filesystem::path& vault_directory, unsigned count,
                                    LocalServersPatience patience = {},
                                    const std::filesystem::path& record_of_first = {});

  /// Stops all servers and waits until they have ended. They have ended even if it returns an
  /// error, which names those that did not end well or were not running. Only the first call has an
  /// effect.
  Status stop();

  /// Returns whether server `number` (1..count) runs.
  bool running(unsigned number) const;
  /// Returns how server `number` ended, if it does not run: "(exit code 12): LAST LINE; its log is
  /// ..."; otherwise empty.
  std::string end(unsigned number) const;
  /// Returns how often server `number` was restarted.
  unsigned restarts(unsigned number) const;

  LocalServers(LocalServers&& other) noexcept;
  LocalServers& operator=(LocalServers&& other) noexcept;
  /// Stops the servers.
  ~LocalServers();

 private:
  class Keeper;
  explicit LocalServers(std::unique_ptr<Keeper> keeper);
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace s3oram
