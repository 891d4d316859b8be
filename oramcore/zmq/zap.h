// Decides which CURVE keys a listener admits (ZeroMQ's RFC 27, ZAP).
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "oramcore/base/curve_keys.h"
#include "oramcore/base/log_limit.h"
#include "oramcore/net/transport.h"

namespace s3oram {

/// Listeners set this ZAP domain. They also drop messages without a "User-Id", so that nobody is
/// heard should the handler be missing: ZeroMQ itself would admit everybody then.
inline constexpr const char* kZapDomain = "s3oramfs";

/// Answers on a thread of its own, which goes on after every error. The party's number becomes the
/// connection's "User-Id". Thread-safe.
class ZapHandler {
 public:
  using Admitted = std::map<PublicKey, Party>;

  /// Binds before any listener of `context` may; throws zmq::error_t or std::system_error.
  /// `address` says where the connection comes from whose key is asked about; the thread calls it.
  ZapHandler(zmq::context_t& context, Admitted admitted, std::function<std::string()> address);
  /// Call context.shutdown() before: it ends the thread.
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

  /// From now on; connections that are there stay.
  void admit(Admitted admitted);

 private:
  void run();
  /// Waits for one request and answers it. Throws what fails.
  void answer_one();
  /// The user id for this request's frames; empty: refused.
  std::string judge(const std::vector<zmq::message_t>& request);
  void warn_refused(const std::string& why);

  zmq::socket_t socket_;
  std::function<std::string()> address_;
  std::mutex mutex_;
  Admitted admitted_;                           // under mutex_
  LogLimit refusals_{std::chrono::seconds(1)};  // the thread's own
  LogLimit failures_;                           // the thread's own
  std::thread thread_;
};

}  // namespace s3oram
