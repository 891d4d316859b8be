// Serves the daemon's page of metrics, on a thread of its own.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <thread>

#include "oramcore/base/metrics_responder.h"

namespace s3oram {

class MetricsEndpoint {
 public:
  /// `page` is called on the thread; it may block for a moment. Errors: usage, exists, failed.
  static Result<std::unique_ptr<MetricsEndpoint>> open(const std::string& address,
                                                       std::function<std::string()> page);
  /// Waits for a page that is being made.
  ~MetricsEndpoint();

  const std::string& address() const { return responder_->address(); }

 private:
  MetricsEndpoint() = default;
  asio::io_context io_{1};
  std::unique_ptr<MetricsResponder> responder_;
  std::thread thread_;
};

}  // namespace s3oram
