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

/// The ZAP domain of our listeners. They also drop messages without a "User-Id", because without a
/// handler ZeroMQ would admit everyone.
inline constexpr const char* kZapDomain = "s3oramfs";

/// Answers ZeroMQ's requests on a separate thread, which continues after every error. Thread-safe.
class ZapHandler {
 public:
  using Admitted = std::map<PublicKey, Party>;

  /// Returns the "User-Id" of a party's connections: its number and the key, because a party may
  /// get another key while connections with its earlier one are open.
  static std::string user_of(Party party, const PublicKey& key);

  /// Must be constructed before any listener of `context` binds. `address`, called on the handler's
  /// thread, returns where the connection whose key is being judged comes from. Throws zmq::error_t
  /// or std::system_error.
  ZapHandler(zmq::context_t& context, Admitted admitted, std::function<std::string()> address);
  /// Joins the thread. Call context.shutdown() first, because that ends the thread.
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

  /// Replaces the admitted keys. Open connections stay open.
  void admit(Admitted admitted);

 private:
  void run();
  /// Waits for one request and answers it. Throws zmq::error_t.
  void answer_one();
  /// Returns the user id for a request's frames; empty if it is refused.
  std::string judge(const std::vector<zmq::message_t>& request);
  void warn_refused(const std::string& why);

  zmq::socket_t socket_;
  std::function<std::string()> address_;
  std::mutex mutex_;
  Admitted admitted_;                           // under mutex_
  LogLimit refusals_{std::chrono::seconds(1)};  // used only by the thread
  LogLimit failures_;                           // used only by the thread
  std::thread thread_;
};

}  // namespace s3oram
