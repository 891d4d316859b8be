// Answers GET /metrics over HTTP with a page of metrics (metrics.h), for both programs.
//
// No client can occupy resources for long: a connection gets one answer within some seconds,
// requests are limited to some KiB, and only few connections are open at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "oramcore/base/async.h"
#include "oramcore/base/error.h"

namespace s3oram {

struct MetricsAddress {
  std::string address;  // ADDRESS:PORT or [ADDRESS]:PORT, numeric; port 0 takes any free one
  bool any = false;     // allows addresses other than loopback
};

struct MetricsLimits {
  std::size_t connections = 8;                // limit at any time; a further one closes the oldest
  std::size_t header = 8 << 10;               // bytes of a request
  std::chrono::milliseconds patience{5'000};  // time for a whole request and its answer
};

/// Checks an address. Errors: usage, naming `option`: it is not an address, or not a loopback
/// address.
Status check_metrics_address(const MetricsAddress& address, std::string_view option);

/// All methods run on the executor.
class MetricsResponder {
 public:
  /// `page` returns the text; it is called on the executor for each request. On a loopback address,
  /// only requests with a loopback Host header are answered, so that no web page can read the
  /// metrics through a name that resolves to this machine. Errors: usage, exists (the port is
  /// taken).
  static Result<std::unique_ptr<MetricsResponder>> listen(Executor executor,
                                                          const MetricsAddress& address,
                                                          std::function<std::string()> page,
                                                          const MetricsLimits& limits = {});
  /// Stops calling `page`.
  ~MetricsResponder();

  /// Returns ADDRESS:PORT, with the port that was chosen if it was 0.
  const std::string& address() const { return address_; }

 private:
  struct State;
  MetricsResponder(std::shared_ptr<State> state, std::string address);
  std::shared_ptr<State> state_;
  std::string address_;
};

}  // namespace s3oram
