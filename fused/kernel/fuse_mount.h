// A mounted FileSystem: libfuse's session, and the threads that serve it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fused/kernel/held_mount.h"
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
  /// The most bytes of a read or a write. Dozens of requests are under way, because the kernel and
  /// each thread hold one.
  unsigned largest_request = 1u << 20;
};

class FuseMount {
 public:
  /// Mounts, or serves an existing mount whose device is `mounted`. `files` must outlive the mount.
  /// Errors: bad_mount_point.
  static Result<std::unique_ptr<FuseMount>> create(FileSystem& files,
                                                   const FuseMountOptions& options,
                                                   Descriptor mounted = {});
  /// Serves a mount that hold() has returned. `files` must know the inodes that the kernel refers
  /// to.
  static Result<std::unique_ptr<FuseMount>> resume(FileSystem& files,
                                                   const FuseMountOptions& options, HeldMount held);
  /// Unmounts, lazily if it is busy. If wait() has not returned yet, makes the kernel write back
  /// its dirty pages first.
  ~FuseMount();

  /// Starts all threads that answer requests. `cpu_latency` is for CpuLatency. Call it once.
  /// Errors: failed.
  Status start(Descriptor cpu_latency = {});
  /// Waits until the mount is unmounted or stop() is called. All threads that call the FileSystem
  /// have ended when it returns. Call it once, after start().
  Status wait();

  /// Makes the kernel write back its dirty pages, then makes wait() return, and waits for that.
  /// Call it on a different thread from wait().
  void stop();

  /// Makes the kernel write back its dirty pages and drop everything that it has cached: contents,
  /// attributes and names. From then on the kernel gets no attributes, so nothing can be opened or
  /// written to its cache. Call it on a different thread from wait().
  void withdraw();
  /// Undoes withdraw().
  void readmit();
  /// Makes wait() return, as stop() does, but keeps the mount, which hold() returns. Requests wait
  /// in the kernel from now on.
  void suspend();
  /// Returns the mount, after wait() has returned because of suspend(). The destructor then leaves
  /// the kernel's mount alone.
  std::optional<HeldMount> hold();

  /// Returns when the mount was last used, as far as its use reaches the daemon.
  std::chrono::steady_clock::time_point last_use() const;

 private:
  FuseMount();
  void write_back() const;
  void look_names_up() const;
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
  std::atomic<bool> suspended_ = false;
  std::string init_;  // first request of a resumed mount; see HeldMount
};

}  // namespace s3oram
