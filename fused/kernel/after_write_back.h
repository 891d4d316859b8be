// What waits for the kernel to send pages, on threads of its own: those of the FuseLoop receive the
// pages, and none of them may wait for that.
//
// The kernel sends none by itself before it asks for SEEK_DATA and SEEK_HOLE (we would call a hole
// what it still has), nor before a rename (see FileSystem::replacing()); seen with Linux 6.18.
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
  /// Gets 0, or the error number of the write-back; it answers the request.
  using Work = std::function<void(int error)>;

  /// Starts the threads. The session must outlive it. Errors: failed.
  static Result<std::unique_ptr<AfterWriteBack>> start(fuse_session* session);
  ~AfterWriteBack() { stop(); }

  /// Has the kernel send what it has of these files, and then does the work, now or later.
  void then(std::vector<Ino> files, Work work);
  /// The kernel's copy of these bytes, which it could not write back, is as little there as ours.
  /// (It would show it until it wants the memory for something else.)
  void forget(Ino file, off_t offset, off_t length);
  /// Has it send them, and waits for that. Not on a thread of the FuseLoop. 0 or an error number.
  int write_back(const std::vector<Ino>& files) const;
  /// Does what was asked for, and ends the threads. What is asked for later is done without the
  /// kernel's pages. While it runs, the session must be served.
  void stop();

 private:
  explicit AfterWriteBack(fuse_session* session) : session_(session) {}
  using Task = std::function<void()>;
  /// False, once it is stopping: nobody will do it.
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
