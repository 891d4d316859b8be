// The threads that answer the kernel's requests. One at a time, the leader, reads them from
// /dev/fuse, and answers at once what takes no time: a program that asks one thing after the other
// finds one thread, and its data in one processor's cache. While requests follow each other closely
// it looks for the next one for a moment before it sleeps: waking takes longer than that. After
// many of them, idle processors may not sleep either, until that moment has passed without one.
// Before a thread waits for anything it hands the lead over.
//
// Threads that only wait to read, as libfuse's loop has them, would be woken in turn.
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <semaphore>
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

  /// Starts so many threads, which answer requests until the session has ended. While all of them
  /// wait, no request is read. `cpu_latency` as a CpuLatency takes it. Once. Errors: failed (not
  /// all of them can be started; none runs then).
  Status start(unsigned threads, Descriptor cpu_latency);
  /// Waits until the session has ended, and the threads with it. After start(). Once.
  Status wait();
  /// Ends the session. Any thread.
  void stop();

  /// The calling thread may have to wait now. Does nothing if it does not lead.
  static void hand_over();

 private:
  struct Worker {
    FuseLoop& loop;
    std::binary_semaphore called{0};  // to lead
    bool leads = false;               // its own thread alone
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
  const Descriptor stopped_;              // an eventfd: readable once the session is to end
  std::optional<CpuLatency> processors_;  // these two: the leader's
  unsigned close_ = 0;                    // requests that came closely, one after the other
  std::mutex mutex_;
  std::vector<Worker*> resting_;  // the one that has rested for the shortest time is the next
  bool led_ = false;              // false: all are busy
  std::optional<int> ended_;      // with this error number, or 0
};

/// The system's clocks; a thread of a FuseLoop hands the lead over before it waits.
Timing& fuse_timing();

}  // namespace s3oram
