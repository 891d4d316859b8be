// The thread that serves the page of metrics of a mount.
#include "fused/daemon/metrics_endpoint.h"

#include "oramcore/base/threads.h"

namespace s3oram {

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::open(const std::string& address,
                                                               std::function<std::string()> page) {
  std::unique_ptr<MetricsEndpoint> endpoint(new MetricsEndpoint);
  S3O_ASSIGN(auto responder, MetricsResponder::listen(endpoint->io_.get_executor(),
                                                      {address, false}, std::move(page)));
  endpoint->responder_ = std::move(responder);
  auto thread = start_thread("the page of metrics", [&io = endpoint->io_] { io.run(); });
  if (!thread) return fail(std::move(thread).error());
  endpoint->thread_ = std::move(*thread);
  return endpoint;
}

MetricsEndpoint::~MetricsEndpoint() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace s3oram
