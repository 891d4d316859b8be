// A mounted FileSystem: libfuse's session, and the threads that serve it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

struct fuse_session;

namespace s3oram {

class FileSystem;
class FuseLoop;
struct FuseContext;

struct FuseMountOptions {
  std::string mountpoint;            // absolute
  std::string source;                // shown as the mounted thing
  std::vector<std::string> options;  // "ro", "allow_other", "nodev", ...
};

class FuseMount {
 public:
  /// Mounts, or serves what was mounted before, whose device is `mounted`. `files` must outlive the
  /// mount. Errors: bad_mount_point.
  static Result<std::unique_ptr<FuseMount>> create(FileSystem& files,
                                                   const FuseMountOptions& options,
                                                   Descriptor mounted = {});
  /// Unmounts, lazily where it is busy.
  ~FuseMount();

  /// Answers requests until someone unmounts or stop() is called. All threads that call the
  /// FileSystem have ended when it returns. `cpu_latency` as a CpuLatency takes it. Once.
  Status run(Descriptor cpu_latency = {});

  /// Makes the kernel write back its dirty pages, then ends run(). From another thread; returns
  /// when run() has ended.
  void stop();

 private:
  FuseMount();
  void write_back() const;
  void stop_waiting();
  bool is_unmounted() const;

  std::string mountpoint_;
  std::unique_ptr<FuseContext> context_;
  fuse_session* session_ = nullptr;
  bool mounted_ = false;
  bool by_libfuse_ = true;  // else by mount_by_descriptor()
  std::unique_ptr<FuseLoop> loop_;
  std::atomic<bool> ended_ = false;
};

}  // namespace s3oram
