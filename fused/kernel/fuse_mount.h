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
  std::string source;                // shown as the device of the mount
  std::vector<std::string> options;  // "ro", "allow_other", "nodev", ...
  /// Bytes of a read or a write. Dozens are under way: the kernel and each thread hold one.
  unsigned largest_request = 1u << 20;
};

class FuseMount {
 public:
  /// Mounts, or serves an existing mount whose device is `mounted`. `files` must outlive the mount.
  /// Errors: bad_mount_point.
  static Result<std::unique_ptr<FuseMount>> create(FileSystem& files,
                                                   const FuseMountOptions& options,
                                                   Descriptor mounted = {});
  /// Unmounts, lazily if it is busy. If wait() has not returned yet, makes the kernel write back
  /// its dirty pages first.
  ~FuseMount();

  /// Starts all threads that answer requests. `cpu_latency` is for CpuLatency. Call it once.
  /// Errors: failed.
  Status start(Descriptor cpu_latency = {});
  /// Waits until someone unmounts or stop() is called. All threads that call the FileSystem have
  /// ended when it returns. Call it once, after start().
  Status wait();

  /// Makes the kernel write back its dirty pages, then makes wait() return, and waits for that.
  /// From another thread.
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
  bool by_libfuse_ = true;  // mounted by libfuse; otherwise by mount_by_descriptor()
  std::unique_ptr<FuseLoop> loop_;
  bool started_ = false;
  std::atomic<bool> ended_ = false;
};

}  // namespace s3oram
