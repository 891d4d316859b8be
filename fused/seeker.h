// Answers lseek(SEEK_DATA and SEEK_HOLE) on a thread of its own.
//
// The kernel asks without writing back first, and we would call a hole what it has not sent yet
// (seen with Linux 6.18). So it is made to send all dirty pages of the file, which the threads of
// the FuseLoop receive: none of them may wait for that.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "fused/file_system.h"

struct fuse_req;
struct fuse_session;

namespace s3oram {

/// Any thread.
class Seeker {
 public:
  /// Both must outlive it.
  Seeker(FileSystem& files, fuse_session* session);
  ~Seeker() { stop(); }

  /// Answers the request, now or later.
  void ask(fuse_req* request, Ino ino, off_t offset, int whence);
  /// Answers what was asked, and ends the thread. What is asked later is answered as far as it is
  /// known. While it runs, the session must be served.
  void stop();

 private:
  struct Question {
    fuse_req* request;
    Ino ino;
    off_t offset;
    int whence;
  };
  void run();
  void answer(const Question& question);

  FileSystem& files_;
  fuse_session* const session_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<Question> questions_;
  bool stopping_ = false;
  std::once_flag joined_;
  std::thread thread_;
};

}  // namespace s3oram
