// One server of a local vault, run as a child process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

using SteadyTime = std::chrono::steady_clock::time_point;

/// Waits until `fd` is readable, or its other end is closed. Returns false at the deadline.
bool await_readable(int fd, SteadyTime deadline);

/// Not thread-safe, and not movable. Must be reaped before it is destroyed.
class ServerProcess {
 public:
  /// Describes server `number` of `count` of the vault. If `record` is not empty, the server
  /// records in it what it reads and writes. All paths are absolute.
  ServerProcess(std::filesystem::path program, std::filesystem::path vault, unsigned number,
                unsigned count, std::filesystem::path record = {});
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  /// Runs the program. The kernel stops it when the calling thread ends, for whatever reason.
  Status launch();
  /// Waits until the server listens. Errors, with the last line of its log: unreachable, or, by its
  /// exit code, what is wrong with its store: damaged_vault, unsupported, wrong_volume, disk_full.
  Status await_ready(SteadyTime deadline);
  /// Call it when ready() is readable. Returns whether the server listens; otherwise it has ended.
  bool take_readiness();
  /// Waits for the end of the process and reaps it. Returns false at the deadline.
  bool reap(SteadyTime deadline);
  void signal(int number);

  unsigned number() const { return number_; }
  bool exists() const { return pid_ >= 0; }
  /// Returns whether the last process ended well, once it is reaped.
  bool ended_well() const;
  /// Returns "(exit code 12): LAST LINE; its log is ...".
  std::string end() const;
  /// Returns a descriptor to poll: it is readable when the process has ended. -1 without a process.
  int handle() const { return handle_.get(); }
  /// Returns a descriptor to poll for take_readiness(); -1 once that was called.
  int ready() const { return ready_.get(); }

 private:
  std::string last_log_line() const;

  const std::filesystem::path program_, vault_, store_, log_, record_;
  const unsigned number_, count_;
  pid_t pid_ = -1;
  Descriptor handle_;  // pidfd
  Descriptor ready_;
  int status_ = 0;                // wait status from waitpid()
  std::uintmax_t log_start_ = 0;  // size of the log before this start
};

}  // namespace s3oram
