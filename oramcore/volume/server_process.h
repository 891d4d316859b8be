// One server of a local vault, as a child process of ours.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

using SteadyTime = std::chrono::steady_clock::time_point;

/// Whether `fd` became readable (or its other end closed) before the deadline.
bool await_readable(int fd, SteadyTime deadline);

/// Not thread-safe, and not movable. Whoever destroys it has reaped it.
class ServerProcess {
 public:
  /// Server `number` of `count` of the vault, which records what it reads and writes in `record`,
  /// if that is not empty. All paths are absolute.
  ServerProcess(std::filesystem::path program, std::filesystem::path vault, unsigned number,
                unsigned count, std::filesystem::path record = {});
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  /// Runs the program. The kernel stops it when the calling thread ends, however it ends.
  Status launch();
  /// Waits until it listens. Errors, with the last line of its log: unreachable, or what it says
  /// of its store: damaged_vault, unsupported, disk_full.
  Status await_ready(SteadyTime deadline);
  /// Its readiness has come, or its end: ready() is readable. Whether it listens.
  bool take_readiness();
  /// Whether it has ended before the deadline.
  bool reap(SteadyTime deadline);
  void signal(int number);

  unsigned number() const { return number_; }
  bool exists() const { return pid_ >= 0; }
  /// How the last process ended, once it is reaped.
  bool ended_well() const;
  /// "(exit code 12): its last words; its log is ..."
  std::string end() const;
  /// To poll: readable when the process has ended. -1 without a process.
  int handle() const { return handle_.get(); }
  /// To poll: until readiness was taken; -1 afterwards.
  int ready() const { return ready_.get(); }

 private:
  std::string last_log_line() const;

  const std::filesystem::path program_, vault_, store_, log_, record_;
  const unsigned number_, count_;
  pid_t pid_ = -1;
  Descriptor handle_;  // pidfd
  Descriptor ready_;
  int status_ = 0;                // of waitpid
  std::uintmax_t log_start_ = 0;  // size of the log before it was started
};

}  // namespace s3oram
