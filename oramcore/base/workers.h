// A pool of threads. Replaces asio's thread_pool, which waits forever if the system refuses one of
// its threads.
#pragma once

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

#include "oramcore/base/async.h"

namespace s3oram {

class Workers {
 public:
  /// Each thread calls `begin` first. Throws std::system_error if the system refuses a thread.
  explicit Workers(
      unsigned threads, const std::function<void()>& begin = [] {}) {
    try {
      while (threads_.size() < threads)
        threads_.emplace_back([this, begin] {
          begin();
          io_.run();
        });
    } catch (const std::system_error& error) {
      throw std::system_error(
          error.code(), fmt::format("only {} of {} threads can be started: raise the limit of "
                                    "processes (ulimit -u, TasksMax=)",
                                    threads_.size(), threads));
    }
  }
  /// Drops work that has not begun.
  ~Workers() { io_.stop(); }

  Executor executor() { return io_.get_executor(); }
  /// Waits until everything that was posted is done.
  void join() {
    work_.reset();
    threads_.clear();
  }

 private:
  asio::io_context io_;
  std::vector<std::jthread> threads_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
};

}  // namespace s3oram
