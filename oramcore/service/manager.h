// The service manager that started this program, reached with sd_notify(3). If there is none
// (NOTIFY_SOCKET is not set), no call has an effect.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <string>

namespace s3oram {

/// Not thread-safe. If a notification fails, the failure is logged and the program continues; the
/// manager then does what the unit file says.
class ServiceManager {
 public:
  enum class Whose { ours, another };  // another: that of the process that started this one
  explicit ServiceManager(Whose whose = Whose::ours);

  /// Reports that the program is ready; `doing` says what it does, in a few words.
  void ready(const std::string& doing);
  void stopping();
  void alive();

  /// Returns the longest time that the manager allows between calls of alive(); std::nullopt if it
  /// does not watch.
  std::optional<std::chrono::microseconds> patience() const { return patience_; }

 private:
  void tell(const std::string& message);

  bool there_;
  std::optional<std::chrono::microseconds> patience_;
};

/// Tells the manager, for as long as this object lives, that an executor is still running. Must be
/// created and destroyed on that executor, or while it does not run. Does nothing if the manager
/// does not watch.
class Watchdog {
 public:
  Watchdog(boost::asio::any_io_executor executor, ServiceManager& manager);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void go_on();

  ServiceManager& manager_;
  boost::asio::steady_timer timer_;
};

}  // namespace s3oram
