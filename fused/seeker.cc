#include "fused/seeker.h"

#include "fused/fuse_ops.h"

namespace s3oram {

Seeker::Seeker(FileSystem& files, fuse_session* session)
    : files_(files), session_(session), thread_([this] { run(); }) {}

void Seeker::ask(fuse_req* request, Ino ino, off_t offset, int whence) {
  const Question question{request, ino, offset, whence};
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      questions_.push_back(question);
      asked_.notify_one();
      return;
    }
  }
  answer(question);
}

void Seeker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    asked_.notify_one();
  }
  std::call_once(joined_, [this] { thread_.join(); });
}

void Seeker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return stopping_ || !questions_.empty(); });
    if (questions_.empty()) return;
    const Question question = questions_.front();
    questions_.pop_front();
    lock.unlock();
    const int error = -fuse_lowlevel_notify_inval_inode(session_, question.ino, 0, 0);
    if (error == 0 || error == ENOENT)
      answer(question);
    else
      fuse_reply_err(question.request, error);
    lock.lock();
  }
}

void Seeker::answer(const Question& question) {
  const auto found =
      files_.seek(question.ino, static_cast<std::uint64_t>(question.offset), question.whence);
  if (found)
    fuse_reply_lseek(question.request, static_cast<off_t>(*found));
  else
    fuse_reply_err(question.request, found.error());
}

}  // namespace s3oram
