// Checks twice a second how much memory is left.
#include "oramcore/base/memory_watch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "oramcore/base/human.h"
#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

constexpr std::chrono::milliseconds kPeriod{500};

}  // namespace

unsigned CacheShift::step(const MemoryRoom& room, Time now) {
  if (room.is_short() && shift_ < kMost) {
    ++shift_;
    changed_ = now;
  } else if (room.is_short()) {
    changed_ = now;
  } else if (room.is_ample() && shift_ > 0 && now - *changed_ >= kCalm) {
    --shift_;
    changed_ = now;
  }
  return shift_;
}

Result<std::unique_ptr<MemoryWatch>> MemoryWatch::start(std::function<void(unsigned)> changed,
                                                        std::function<MemoryRoom()> room) {
  std::unique_ptr<MemoryWatch> watch(new MemoryWatch);
  watch->changed_ = std::move(changed);
  watch->room_ = std::move(room);
  auto thread = start_thread("watching the memory", [raw = watch.get()] { raw->run(); });
  if (!thread) return fail(std::move(thread).error());
  watch->thread_ = std::move(*thread);
  return watch;
}

MemoryWatch::~MemoryWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MemoryWatch::run() {
  CacheShift caches;
  unsigned shift = 0;
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, kPeriod, [this] { return ending_; })) {
    lock.unlock();
    const MemoryRoom room = room_();
    const unsigned next = caches.step(room, std::chrono::steady_clock::now());
    if (shift == 0 && next > 0)
      spdlog::warn("memory is short: {} of {} are left; caches shrink until there is more",
                   human_size(room.left), human_size(room.limit));
    else if (shift > 0 && next == 0)
      spdlog::info("memory is no longer short: caches have their full sizes again");
    if (std::exchange(shift, next) != next || room.is_short()) changed_(next);
    lock.lock();
  }
}

}  // namespace s3oram
