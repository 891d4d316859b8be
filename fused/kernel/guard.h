// Ends the mount of a daemon that was killed. If one of its threads was making the kernel write
// back pages (AfterWriteBack), that thread waits for the daemon's own answer and cannot die.
// Without the guard the mount would hang, and the vault would stay locked, forever. A small process
// watches the daemon, and makes the kernel abort the mount's connection when the daemon does not
// end.
#pragma once

#include <filesystem>
#include <string_view>

#include "oramcore/base/descriptor.h"

namespace s3oram {

class Guard {
 public:
  /// The daemon's program runs as a guard if it is started by this name (argv[0]).
  static constexpr std::string_view kName = "s3oramfs-guard";

  /// Opens the file of the kernel's fusectl file system that aborts the connection of the mount at
  /// `point` when a byte is written to it. Returns no descriptor if fusectl is not mounted and this
  /// process may not mount it.
  static Descriptor abort_of(const std::filesystem::path& point);
  /// Opens that file for the connection with this number.
  static Descriptor abort_of(unsigned connection);
  /// Starts the guard of this process. Call it on the main thread, because the guard acts when the
  /// calling thread ends. Does nothing without `abort`. A failure is only logged.
  static void start(Descriptor abort);
  /// Runs as the guard of the process `daemon_number`. Returns the guard's exit code.
  static int run(const char* daemon_number);
};

}  // namespace s3oram
