#include "fused/daemon/metrics_endpoint.h"

namespace s3oram {

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::open(const std::string& address,
                                                               std::function<std::string()> page) {
  std::unique_ptr<MetricsEndpoint> endpoint(new MetricsEndpoint);
  auto responder =
      MetricsResponder::listen(endpoint->io_.get_executor(), {address, false}, std::move(page));
  if (!responder) return fail(responder.error());
  endpoint->responder_ = std::move(*responder);
  endpoint->thread_ = std::thread([&io = endpoint->io_] { io.run(); });
  return endpoint;
}

MetricsEndpoint::~MetricsEndpoint() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace s3oram
