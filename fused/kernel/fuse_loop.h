// The threads that answer the kernel's requests. One thread at a time, the leader, reads requests
// from /dev/fuse and answers them itself, so that a program that makes one request after another is
// served by one thread with warm caches. Before a thread waits for anything, it hands the lead
// over.
//
// While requests follow each other closely, the leader polls for a moment before it sleeps, because
// waking up would take longer than that. After many close requests it also keeps idle processors
// awake, until such a moment passes without a request.
//
// (In libfuse's own loop all threads wait to read, and the kernel wakes a different one each time.)
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "fused/cache/timing.h"
#include "fused/kernel/cpu_latency.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

struct fuse_buf;
struct fuse_session;

namespace s3oram {

class FuseLoop {
 public:
  /// The session must outlive it, and be mounted when it runs.
  explicit FuseLoop(fuse_session* session);

  /// Ends the session and waits for its threads.
  ~FuseLoop();

  /// Starts `threads` threads, which answer requests until the session has ended. While all of them
  /// wait, no request is read. `cpu_latency` is for CpuLatency. Call it once. Errors: failed (not
  /// all threads can be started; then none runs).
  Status start(unsigned threads, Descriptor cpu_latency);
  /// Waits until the session and its threads have ended. Call it once, after start().
  Status wait();
  /// Ends the session. Any thread.
  void stop();
  /// Returns the first request, after wait().
  const std::string& first_request() const { return first_request_; }
  /// Returns when the last request came for which is_use() is true.
  std::chrono::steady_clock::time_point last_use() const { return last_use_; }

  /// Called before the calling thread may wait: makes another thread the leader. Does nothing if
  /// the caller does not lead.
  static void hand_over();

 private:
  struct Worker {
    explicit Worker(FuseLoop& served) : loop(served) {}
    FuseLoop& loop;
    std::binary_semaphore called{0};  // released to make it the leader
    bool leads = false;               // used only by its own thread
  };

  void work(Worker& self);
  int receive(fuse_buf& request, std::chrono::steady_clock::time_point until);
  bool lead(Worker& self);
  void pass_lead();
  void end(int error);

  static thread_local Worker* worker_;

  fuse_session* const session_;
  std::deque<Worker> workers_;
  std::vector<std::thread> threads_;
  const Descriptor stopped_;              // an eventfd; readable once the session must end
  std::optional<CpuLatency> processors_;  // this and close_ are used only by the leader
  unsigned close_ = 0;                    // consecutive requests that followed each other closely
  std::string first_request_;             // used only by the leader
  std::atomic<std::chrono::steady_clock::time_point> last_use_;
  std::mutex mutex_;
  std::vector<Worker*> resting_;  // the last one leads next
  bool led_ = false;              // false if all threads are busy
  std::optional<int> ended_;      // set once the session has ended: its error number, or 0
};

/// The system's clocks. A thread of a FuseLoop hands the lead over before it waits.
Timing& fuse_timing();

}  // namespace s3oram
