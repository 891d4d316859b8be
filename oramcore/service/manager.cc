// Tells the service manager that started this program what the program is doing.
#include "oramcore/service/manager.h"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace s3oram {

ServiceManager::ServiceManager(Whose whose)
    : there_(whose == Whose::ours && std::getenv("NOTIFY_SOCKET") != nullptr) {
  std::uint64_t microseconds = 0;
  if (there_ && ::sd_watchdog_enabled(0, &microseconds) > 0)
    patience_ = std::chrono::microseconds(microseconds);
}

void ServiceManager::ready(const std::string& doing) { tell("READY=1\nSTATUS=" + doing); }
void ServiceManager::stopping() { tell("STOPPING=1\nSTATUS=Stopping"); }
void ServiceManager::alive() { tell("WATCHDOG=1"); }

void ServiceManager::tell(const std::string& message) {
  if (!there_) return;
  const int rc = ::sd_notify(0, message.c_str());
  if (rc < 0) spdlog::warn("cannot notify the service manager: {}", std::strerror(-rc));
}

Watchdog::Watchdog(boost::asio::any_io_executor executor, ServiceManager& manager)
    : manager_(manager), timer_(executor) {
  if (manager_.patience()) go_on();
}

void Watchdog::go_on() {
  manager_.alive();
  constexpr int kTimes = 3;  // per interval of the manager, so that one may be late
  timer_.expires_after(*manager_.patience() / kTimes);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) go_on();
  });
}

}  // namespace s3oram
