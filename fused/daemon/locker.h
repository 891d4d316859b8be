// Makes a mount ready to be locked.
#pragma once

#include <mutex>

#include "fused/files/file_system.h"
#include "fused/kernel/fuse_mount.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Makes everything durable. Errors: a code by errno, in words for the user.
Status sync(FileSystem& files);

/// Makes everything durable, has the kernel drop what it has cached, and ends the serving of the
/// mount. Called by two threads: of the control socket, and of signals.
class Locker {
 public:
  Locker(FuseMount& mount, FileSystem& files) : mount_(mount), files_(files) {}
  /// Errors: those of sync(); then nothing has changed.
  Status lock();

 private:
  std::mutex mutex_;
  FuseMount& mount_;
  FileSystem& files_;
  bool done_ = false;
};

}  // namespace s3oram
