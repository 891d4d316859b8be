// The threads that make the kernel write back dirty pages, and then do the work that waited for it.
#include "fused/kernel/after_write_back.h"

#include <cerrno>
#include <utility>

#include "fused/kernel/fuse_ops.h"
#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

constexpr unsigned kThreads = 4;

}  // namespace

Result<std::unique_ptr<AfterWriteBack>> AfterWriteBack::start(fuse_session* session) {
  std::unique_ptr<AfterWriteBack> waiting(new AfterWriteBack(session));
  while (waiting->threads_.size() < kThreads) {
    auto thread =
        start_thread("waiting for the kernel's pages", [raw = waiting.get()] { raw->run(); });
    if (!thread) return fail(std::move(thread).error());
    waiting->threads_.push_back(std::move(*thread));
  }
  return waiting;
}

bool AfterWriteBack::add(Task task) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  tasks_.push_back(std::move(task));
  asked_.notify_one();
  return true;
}

void AfterWriteBack::then(std::vector<Ino> files, Work work) {
  const bool added = add([this, files = std::move(files), work] { work(write_back(files)); });
  if (!added) work(0);
}

void AfterWriteBack::forget(Ino file, off_t offset, off_t length) {
  add([this, file, offset, length] {
    fuse_lowlevel_notify_inval_inode(session_, file, offset, length);
  });
}

void AfterWriteBack::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    asked_.notify_all();
  }
  std::call_once(joined_, [this] {
    for (std::thread& thread : threads_) thread.join();
  });
}

void AfterWriteBack::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

int AfterWriteBack::write_back(const std::vector<Ino>& files) const {
  for (const Ino file : files) {
    const int error = -fuse_lowlevel_notify_inval_inode(session_, file, 0, 0);
    // EBUSY: the pages were sent, and have been written to again since then. ENOENT: the kernel
    // does not know the file.
    if (error != 0 && error != EBUSY && error != ENOENT) return error;
  }
  return 0;
}

}  // namespace s3oram
