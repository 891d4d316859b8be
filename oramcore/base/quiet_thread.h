// Threads that receive no signals.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace s3oram {

/// Starts a thread with all signals blocked, so that none interrupts its calls; another thread
/// waits for signals. Throws std::system_error if the system refuses the thread.
template <class Work>
std::thread start_quiet_thread(Work work) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(work));
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace s3oram
