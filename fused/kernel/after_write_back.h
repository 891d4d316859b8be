// Runs work that must wait until the kernel has sent its dirty pages. It uses threads of its own,
// because the threads of the FuseLoop receive the pages and so must not wait for them.
//
// The kernel does not send dirty pages by itself before SEEK_DATA and SEEK_HOLE (the daemon would
// report a hole where the kernel has data), nor before a rename (see FileSystem::replacing()). Seen
// with Linux 6.18.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fused/cache/node.h"
#include "oramcore/base/error.h"

struct fuse_session;

namespace s3oram {

/// May be used on any thread.
class AfterWriteBack {
 public:
  /// Work that answers a request. `error` is 0, or the error number of the write-back.
  using Work = std::function<void(int error)>;

  /// Starts the threads. The session must outlive it. Errors: failed.
  static Result<std::unique_ptr<AfterWriteBack>> start(fuse_session* session);
  ~AfterWriteBack() { stop(); }

  /// Makes the kernel send its dirty pages of these files, and then does the work.
  void then(std::vector<Ino> files, Work work);
  /// Makes the kernel drop its copy of bytes whose write-back failed. Otherwise programs would read
  /// them until the kernel needs the memory.
  void forget(Ino file, off_t offset, off_t length);
  /// Makes the kernel send its dirty pages, and waits for them. Returns 0 or an error number. Must
  /// not be called on a thread of the FuseLoop.
  int write_back(const std::vector<Ino>& files) const;
  /// Finishes all work and ends the threads. Work that is added later is done immediately, without
  /// waiting for the kernel's pages. The session must be served meanwhile.
  void stop();

 private:
  explicit AfterWriteBack(fuse_session* session) : session_(session) {}
  using Task = std::function<void()>;
  /// Returns false, and drops the task, once it is stopping.
  bool add(Task task);
  void run();

  fuse_session* const session_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::once_flag joined_;
  std::vector<std::thread> threads_;
};

}  // namespace s3oram
