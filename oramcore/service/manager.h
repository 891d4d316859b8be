// The service manager that started this program, as sd_notify(3) talks to it. Without one
// (NOTIFY_SOCKET is not set) nothing is said to anyone.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <string>

namespace s3oram {

/// One thread. What cannot be told is logged: the manager then does what its unit says, and the
/// program goes on.
class ServiceManager {
 public:
  enum class Whose { ours, another };  // another: of the process that started this one
  explicit ServiceManager(Whose whose = Whose::ours);

  /// It serves; `doing` says what, in a few words.
  void ready(const std::string& doing);
  void stopping();
  void alive();

  /// Within what time the manager wants to hear alive(), again and again; if it does.
  std::optional<std::chrono::microseconds> patience() const { return patience_; }

 private:
  void tell(const std::string& message);

  bool there_;
  std::optional<std::chrono::microseconds> patience_;
};

/// Tells the manager that an executor still gets its turn, for as long as this lives. Made and
/// destroyed on that executor, or while it does not run. Does nothing where nobody waits for it.
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
