// Runs work that must wait until the kernel has sent its dirty pages, on threads of its own: the
// threads of the FuseLoop receive the pages, so they must not wait for them.
//
// The kernel does not send them by itself before it asks for SEEK_DATA and SEEK_HOLE (we would
// report a hole where it has data), nor before a rename (see FileSystem::replacing()); seen with
// Linux 6.18.
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

/// Any thread.
class AfterWriteBack {
 public:
  /// Answers a request. `error` is 0, or the error number of the write-back.
  using Work = std::function<void(int error)>;

  /// Starts the threads. The session must outlive it. Errors: failed.
  static Result<std::unique_ptr<AfterWriteBack>> start(fuse_session* session);
  ~AfterWriteBack() { stop(); }

  /// Makes the kernel send its dirty pages of these files, and does the work after that.
  void then(std::vector<Ino> files, Work work);
  /// Makes the kernel drop its copy of bytes whose write-back failed. (Otherwise it would show them
  /// until it needs the memory.)
  void forget(Ino file, off_t offset, off_t length);
  /// Makes the kernel send its dirty pages, and waits for them. Returns 0 or an error number. Not
  /// on a thread of the FuseLoop.
  int write_back(const std::vector<Ino>& files) const;
  /// Finishes all work and ends the threads. Later work is done at once, without the kernel's
  /// pages. The session must be served meanwhile.
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
