// Tests that a server counts its requests by kind.
#include "serverd/oram/server_metrics.h"

#include <gtest/gtest.h>

#include "tests/harness/exposition.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;

TEST(ServerMetrics, CountsRequestsByTheirKind) {
  Metrics metrics;
  ServerMetrics server(metrics);
  server.handled(MessageType::retrieve, 3ms, true);
  server.handled(MessageType::retrieve, 5ms, false);
  server.handled(MessageType::traffic, 1ms, true);
  server.handled(static_cast<MessageType>(9999), 1ms, false);
  server.sync_seconds.observe(2ms);
  server.traffic_with(kClient, {.bytes_sent = 1, .bytes_received = 2});
  server.traffic_with(3, {.bytes_sent = 3, .bytes_received = 4});
  const Exposition page = read_exposition(metrics.text());
  const auto of = [&](const std::string& name) {
    return page.samples.at("s3oramfs_serverd_" + name);
  };
  EXPECT_EQ(of("requests_total{kind=\"retrieve\"}"), 2);
  EXPECT_EQ(of("request_failures_total{kind=\"retrieve\"}"), 1);
  EXPECT_EQ(of("requests_total{kind=\"traffic\"}"), 1);
  EXPECT_EQ(of("requests_total{kind=\"relay\"}"), 0);
  EXPECT_EQ(of("requests_total{kind=\"unknown\"}"), 1);
  EXPECT_EQ(of("sent_bytes_total{peer=\"client\"}"), 1);
  EXPECT_EQ(of("received_bytes_total{peer=\"3\"}"), 4);
  for (const char* kind : {"retrieve", "write_root", "prepare", "commit"})
    check_histogram(page, "s3oramfs_serverd_request_seconds", "kind=\"" + std::string(kind) + "\"");
  check_histogram(page, "s3oramfs_serverd_sync_seconds");
}

}  // namespace
}  // namespace s3oram
