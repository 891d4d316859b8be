// When the daemon is killed while one of its threads has the kernel write back a file's pages
// (AfterWriteBack), that thread waits for the daemon's own answer, and cannot die: the mount would
// hang, and the vault stay locked, for good. A small process of its own watches, and then has the
// kernel give the mount's connection up.
#pragma once

#include <filesystem>
#include <string_view>

#include "oramcore/base/descriptor.h"

namespace s3oram {

class Guard {
 public:
  /// The name (argv[0]) by which the daemon's program is a guard.
  static constexpr std::string_view kName = "s3oramfs-guard";

  /// What ends the connection of the mount at `point` when a byte is written to it: of the kernel's
  /// fusectl file system. None, where that is neither mounted nor can be, for lack of rights.
  static Descriptor abort_of(const std::filesystem::path& point);
  /// The same of the connection of this number.
  static Descriptor abort_of(unsigned connection);
  /// Starts the guard of this process, on the thread whose end is to be that of the process. It
  /// ends with it. Without an `abort` there is none. A failure is only logged.
  static void start(Descriptor abort);
  /// The guard itself, of this process; its exit code.
  static int run(const char* daemon_number);
};

}  // namespace s3oram
