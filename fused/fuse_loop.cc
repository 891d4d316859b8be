#include "fused/fuse_loop.h"

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>

namespace s3oram {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kShort = 4096;  // bytes of a request
// A waiting thread wakes after 5 to 50 us: longer on an idle processor, and on a virtual one.
constexpr std::chrono::microseconds kLook{50}, kClose{150};

class FuseTiming final : public Timing {
 public:
  Time now() override { return system_timing().now(); }
  std::int64_t wall_clock() override { return system_timing().wall_clock(); }
  void wait(Lock& lock, std::condition_variable& changed, Time until) override {
    FuseLoop::hand_over();
    system_timing().wait(lock, changed, until);
  }
};

}  // namespace

thread_local FuseLoop::Worker* FuseLoop::worker_ = nullptr;

Status FuseLoop::run(unsigned threads) {
  std::deque<Worker> workers;
  std::vector<std::jthread> running;
  try {
    for (unsigned i = 0; i < threads; ++i) {
      Worker& worker = workers.emplace_back(*this);
      running.emplace_back([this, &worker] { work(worker); });
    }
  } catch (const std::system_error& error) {
    spdlog::warn("only {} threads answer requests: {}", running.size(), error.what());
    if (running.empty()) return fail(Errc::failed, "no thread can be started: {}", error.what());
  }
  running.clear();  // waits for them
  if (*ended_ == 0) return {};
  return fail(Errc::failed, "the connection to the kernel broke: {}", std::strerror(*ended_));
}

void FuseLoop::work(Worker& self) {
  worker_ = &self;
  self.thread = pthread_self();
  fuse_buf request{};
  bool is_close = false;  // the next request, if it comes as the last one did
  while (lead(self)) {
    const auto begun = SteadyClock::now();
    if (is_close) look_for_request();
    const int got =
        fuse_session_exited(session_) ? 0 : fuse_session_receive_buf(session_, &request);
    is_close = SteadyClock::now() - begun < kClose;
    if (got > 0) {
      if (request.size > kShort) hand_over();
      fuse_session_process_buf(session_, &request);
    } else if (got != -EINTR) {
      end(-got);
    }
  }
  std::free(request.mem);
}

void FuseLoop::look_for_request() const {
  pollfd device{fuse_session_fd(session_), POLLIN, 0};
  const auto until = SteadyClock::now() + kLook;
  while (::poll(&device, 1, 0) == 0 && SteadyClock::now() < until) continue;
}

/// Returns once the caller leads; false if the session has ended.
bool FuseLoop::lead(Worker& self) {
  if (self.leads) return true;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    if (leader_)
      resting_.push_back(&self);
    else
      leader_ = &self;
    self.leads = leader_ == &self;
  }
  if (self.leads) return true;
  self.called.acquire();
  const std::lock_guard lock(mutex_);
  self.leads = !ended_;
  return self.leads;
}

void FuseLoop::hand_over() {
  if (worker_ && std::exchange(worker_->leads, false)) worker_->loop.pass_lead();
}

void FuseLoop::pass_lead() {
  const std::lock_guard lock(mutex_);
  leader_ = nullptr;
  if (resting_.empty()) return;
  leader_ = resting_.back();
  resting_.pop_back();
  leader_->called.release();
}

/// Called by the leader.
void FuseLoop::end(int error) {
  const std::lock_guard lock(mutex_);
  ended_ = error;
  worker_->leads = false;
  leader_ = nullptr;
  for (Worker* worker : resting_) worker->called.release();
  resting_.clear();
}

void FuseLoop::nudge() {
  const std::lock_guard lock(mutex_);
  if (leader_) pthread_kill(leader_->thread, SIGUSR1);
}

Timing& fuse_timing() {
  static FuseTiming timing;
  return timing;
}

}  // namespace s3oram
