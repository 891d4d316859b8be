// The thread that logs changes of a mount's health (health_watch.h).
#include "fused/daemon/health_watch.h"

#include <spdlog/spdlog.h>

#include <chrono>

namespace s3oram {
namespace {

constexpr std::chrono::seconds kEvery{1};

}  // namespace

HealthLog::Changes HealthLog::changes(const std::vector<Problem>& now) {
  Changes changes;
  for (auto& [cause, there] : known_) there = false;
  for (const Problem& problem : now)
    if (known_.insert_or_assign(problem.cause, true).second) changes.begun.push_back(problem.text);
  for (const auto& [cause, there] : known_)
    if (!there) changes.ended.push_back(cause);
  std::erase_if(known_, [](const auto& each) { return !each.second; });
  return changes;
}

HealthWatch::HealthWatch(std::function<std::vector<Problem>()> look)
    : look_(std::move(look)), thread_([this] { run(); }) {}

HealthWatch::~HealthWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void HealthWatch::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kEvery, [this] { return stopping_; })) {
    lock.unlock();
    log(known_.changes(look_()));
    lock.lock();
  }
}

void HealthWatch::log(const HealthLog::Changes& changes) const {
  for (const std::string& text : changes.begun) spdlog::warn("unhealthy: {}", text);
  for (const std::string& cause : changes.ended) spdlog::info("over: {}", cause);
  if (!changes.ended.empty() && known_.healthy()) spdlog::info("healthy again");
}

}  // namespace s3oram
