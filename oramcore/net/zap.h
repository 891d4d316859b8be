// Decides which CURVE keys a listener admits (ZeroMQ's RFC 27, ZAP).
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "oramcore/base/curve_keys.h"
#include "oramcore/net/transport.h"

namespace s3oram {

/// Listeners set this ZAP domain. They also drop messages without a "User-Id", so that nobody is
/// heard should the handler be missing: ZeroMQ itself would admit everybody then.
inline constexpr const char* kZapDomain = "s3oramfs";

/// Answers on a thread of its own. The party's number becomes the connection's "User-Id".
/// Thread-safe.
class ZapHandler {
 public:
  using Admitted = std::map<PublicKey, Party>;

  /// Binds before any listener of `context` may; throws zmq::error_t.
  ZapHandler(zmq::context_t& context, Admitted admitted);
  /// Call context.shutdown() before: it ends the thread.
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

  /// From now on; connections that are there stay.
  void admit(Admitted admitted);

 private:
  void run();
  /// The user id for this request's frames; empty: refused.
  std::string judge(const std::vector<zmq::message_t>& request);
  void warn_refused(const std::string& address, const std::string& why);

  zmq::socket_t socket_;
  std::mutex mutex_;
  Admitted admitted_;                                     // under mutex_
  std::chrono::steady_clock::time_point next_warning_{};  // the thread's own
  unsigned unreported_ = 0;                               // the thread's own
  std::thread thread_;
};

}  // namespace s3oram
