// Makes a mount ready to be locked.
#pragma once

#include <mutex>

#include "fused/files/file_system.h"
#include "fused/kernel/fuse_mount.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Makes everything durable. Errors: a code that depends on the errno, and a text for the user.
Status sync(FileSystem& files);

/// Makes everything durable, makes the kernel drop what it has cached, and stops serving the mount.
/// Called by two threads: the control socket's and that of the signals.
class Locker {
 public:
  Locker(FuseMount& mount, FileSystem& files) : mount_(mount), files_(files) {}
  /// Errors: those of sync(); nothing has changed in that case.
  Status lock();

 private:
  std::mutex mutex_;
  FuseMount& mount_;
  FileSystem& files_;
  bool done_ = false;
};

}  // namespace s3oram
