// The signals that end or lock a mount.
#pragma once

#include <functional>
#include <thread>

#include "oramcore/base/error.h"

namespace s3oram {

/// Calls a function for each signal, on a thread of its own.
class SignalWatch {
 public:
  /// SIGTERM, SIGINT and SIGXCPU (the processor time is nearly used up) end a mount; SIGUSR1 locks
  /// it.
  using Handler = std::function<void(int signal)>;

  /// Catches the signals from now on and keeps them for a watch. Call it before any thread exists.
  static Status install();
  /// Makes the signals wait for the install() of the next program that this process executes. Call
  /// it on the main thread.
  static void hold();
  /// Acts as if SIGTERM had come.
  static void end_mount();

  Status start(Handler handler);
  /// Waits for a call that is under way.
  ~SignalWatch();

 private:
  std::thread thread_;
};

}  // namespace s3oram
