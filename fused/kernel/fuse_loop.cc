// Runs the leader's loop, and hands the lead over.
#include "fused/kernel/fuse_loop.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "fused/kernel/fuse_ops.h"
#include "oramcore/base/system_error.h"
#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kShort = 4096;  // bytes; before a longer request the lead is handed over
// Waking a waiting thread takes 5 to 50 us, and longer on an idle or a virtual processor.
constexpr std::chrono::microseconds kLook{50}, kClose{150};
constexpr unsigned kMany = 32;

std::string as_text(const fuse_buf& request) {
  return (request.flags & FUSE_BUF_IS_FD) != 0
             ? std::string()
             : std::string(static_cast<const char*>(request.mem), request.size);
}

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

FuseLoop::FuseLoop(fuse_session* session)
    : session_(session),
      stopped_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      last_use_(SteadyClock::now()) {}

FuseLoop::~FuseLoop() {
  if (threads_.empty()) return;
  stop();
  for (std::thread& thread : threads_) thread.join();
}

Status FuseLoop::start(unsigned threads, Descriptor cpu_latency) {
  processors_.emplace(std::move(cpu_latency));
  const int device = fuse_session_fd(session_);
  if (stopped_.get() < 0 || ::fcntl(device, F_SETFL, ::fcntl(device, F_GETFL) | O_NONBLOCK) != 0)
    return system_failure(errno, "cannot wait for /dev/fuse");
  while (threads_.size() < threads) {
    Worker& worker = workers_.emplace_back(*this);
    auto thread =
        start_thread(fmt::format("answering requests ({} of {})", threads_.size() + 1, threads),
                     [this, &worker] { work(worker); });
    if (!thread) {
      stop();
      if (!threads_.empty()) static_cast<void>(wait());  // its own result does not matter
      return fail(std::move(thread).error());
    }
    threads_.push_back(std::move(*thread));
  }
  return {};
}

Status FuseLoop::wait() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  if (*ended_ == 0) return {};
  return system_failure(*ended_, "the connection to the kernel broke");
}

void FuseLoop::work(Worker& self) {
  worker_ = &self;
  fuse_buf request{};
  while (lead(self)) {
    const auto begun = SteadyClock::now();
    const int got = receive(request, begun + (close_ > 0 ? kLook : kLook.zero()));
    close_ = SteadyClock::now() - begun < kClose ? close_ + 1 : 0;
    if (close_ >= kMany) processors_->keep_awake();
    if (got > 0) {
      if (first_request_.empty()) first_request_ = as_text(request);
      if (is_use(request)) last_use_ = SteadyClock::now();
      if (request.size > kShort) hand_over();
      adapt(request);
      fuse_session_process_buf(session_, &request);
    } else if (got != -EINTR) {
      end(-got);
    }
  }
  std::free(request.mem);
}

/// Polls for a request until `until`, and sleeps after that. Returns the request's size, 0 when the
/// session has ended, or a negative error number.
int FuseLoop::receive(fuse_buf& request, SteadyClock::time_point until) {
  while (!fuse_session_exited(session_)) {
    const int got = fuse_session_receive_buf(session_, &request);
    if (got != -EAGAIN) return got;
    if (SteadyClock::now() < until) continue;
    processors_->let_sleep();
    close_ = 0;
    pollfd either[] = {{fuse_session_fd(session_), POLLIN, 0}, {stopped_.get(), POLLIN, 0}};
    ::poll(either, std::size(either), -1);
  }
  return 0;
}

/// Waits until the caller leads. Returns false if the session has ended.
bool FuseLoop::lead(Worker& self) {
  if (self.leads) return true;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    self.leads = !std::exchange(led_, true);
    if (!self.leads) resting_.push_back(&self);
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
  close_ = 0;
  led_ = !resting_.empty();
  if (!led_) return processors_->let_sleep();
  resting_.back()->called.release();
  resting_.pop_back();
}

/// Ends the loop for all threads. Called by the leader.
void FuseLoop::end(int error) {
  const std::lock_guard lock(mutex_);
  ended_ = error;
  worker_->leads = false;
  led_ = false;
  for (Worker* worker : resting_) worker->called.release();
  resting_.clear();
}

void FuseLoop::stop() {
  fuse_session_exit(session_);
  ::eventfd_write(stopped_.get(), 1);
}

Timing& fuse_timing() {
  static FuseTiming timing;
  return timing;
}

}  // namespace s3oram
