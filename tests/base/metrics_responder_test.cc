// Tests the responder over real sockets, with clients of every kind.
#include "oramcore/base/metrics_responder.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <thread>

namespace s3oram {
namespace {

using Tcp = asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

class Responder : public testing::Test {
 protected:
  void start(const MetricsLimits& limits = {}) {
    auto listening = MetricsResponder::listen(
        io_.get_executor(), {"127.0.0.1:0"},
        [this] {
          ++pages_;
          return std::string("s3o_a_total 1\n");
        },
        limits);
    ASSERT_TRUE(listening) << listening.error().message;
    responder_ = std::move(*listening);
    thread_ = std::thread([this] { io_.run(); });
  }
  void TearDown() override {
    asio::post(io_, [this] { responder_.reset(); });
    guard_.reset();
    if (thread_.joinable()) thread_.join();  // it ends, because no connection outlasts its patience
  }

  Tcp::socket connect() {
    const std::string address = responder_->address();
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    Tcp::socket socket(client_);
    socket.connect({asio::ip::make_address("127.0.0.1"), static_cast<std::uint16_t>(port)});
    return socket;
  }
  /// Reads everything until the other side closes.
  static std::string answer_on(Tcp::socket& socket) {
    std::string answer;
    error_code ended;
    asio::read(socket, asio::dynamic_buffer(answer), ended);
    return answer;
  }
  std::string ask(const std::string& request) {
    Tcp::socket socket = connect();
    error_code refused;  // it may answer before it has read everything
    asio::write(socket, asio::buffer(request), refused);
    return answer_on(socket);
  }
  std::string get(const std::string& target, const std::string& host = "localhost") {
    return ask("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  }
  static std::string status(const std::string& answer) {
    return answer.substr(0, answer.find("\r\n"));
  }

  asio::io_context io_, client_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_{io_.get_executor()};
  std::unique_ptr<MetricsResponder> responder_;
  std::atomic<int> pages_ = 0;
  std::thread thread_;
};

TEST_F(Responder, GivesThePageWithItsFormat) {
  start();
  const std::string answer = get("/metrics");
  EXPECT_EQ(status(answer), "HTTP/1.1 200 OK");
  EXPECT_NE(answer.find("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            std::string::npos);
  EXPECT_NE(answer.find("\r\nContent-Length: 14\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\ns3o_a_total 1\n")) << answer;
  EXPECT_EQ(status(get("/metrics?name[]=x")), "HTTP/1.1 200 OK");
}

TEST_F(Responder, HeadHasNoBody) {
  start();
  const std::string answer = ask("HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_EQ(status(answer), "HTTP/1.1 200 OK");
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST_F(Responder, RefusesAllElse) {
  start();
  EXPECT_EQ(status(get("/")), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(status(get("/metrics/../etc/passwd")), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(
      status(ask("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")),
      "HTTP/1.1 405 Method Not Allowed");
  EXPECT_EQ(status(ask("nonsense\r\n\r\n")), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(status(ask(std::string(300, '\0'))), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(pages_, 0);
}

// A web page whose name resolves to this machine must not read the metrics through a browser.
TEST_F(Responder, IsAskedForByLocalNamesAlone) {
  start();
  for (const char* host : {"localhost", "localhost:9751", "127.0.0.1", "127.0.0.2:9", "[::1]:9751"})
    EXPECT_EQ(status(get("/metrics", host)), "HTTP/1.1 200 OK") << host;
  for (const char* host : {"evil.example", "evil.example:9751", "localhost.evil.example", "",
                           "8.8.8.8", "127.0.0.1.evil.example"})
    EXPECT_EQ(status(get("/metrics", host)), "HTTP/1.1 403 Forbidden") << host;
  EXPECT_EQ(status(ask("GET /metrics HTTP/1.0\r\n\r\n")), "HTTP/1.1 403 Forbidden");
}

TEST_F(Responder, ReadsNoEndlessHeaders) {
  start();
  const std::string answer =
      ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(1 << 20, 'x'));
  EXPECT_TRUE(answer.empty() || status(answer) == "HTTP/1.1 400 Bad Request") << answer;
  EXPECT_EQ(pages_, 0);
  EXPECT_EQ(status(get("/metrics")), "HTTP/1.1 200 OK");
}

TEST_F(Responder, WhoSaysNothingIsCutOff) {
  start({.connections = 8, .header = 8 << 10, .patience = 50ms});
  Tcp::socket silent = connect(), slow = connect();
  asio::write(slow, asio::buffer(std::string("GET /metr")));
  EXPECT_EQ(answer_on(silent), "");
  EXPECT_EQ(answer_on(slow), "");
  EXPECT_EQ(pages_, 0);
}

TEST_F(Responder, ManyConnectionsHoldNothingForLong) {
  start({.connections = 2, .header = 8 << 10, .patience = 50ms});
  std::vector<Tcp::socket> held;
  for (int i = 0; i < 20; ++i) held.push_back(connect());
  for (Tcp::socket& each : held) EXPECT_EQ(answer_on(each), "");
  // All connections are cut off by now; the place of the last may become free a moment later.
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  std::string answer;
  while (answer.empty() && std::chrono::steady_clock::now() < deadline) answer = get("/metrics");
  EXPECT_EQ(status(answer), "HTTP/1.1 200 OK");
}

TEST_F(Responder, TheSilentDoNotKeepOthersOut) {
  start({.connections = 2, .header = 8 << 10, .patience = 1h});
  std::vector<Tcp::socket> held;
  for (int i = 0; i < 20; ++i) held.push_back(connect());
  EXPECT_EQ(status(get("/metrics")), "HTTP/1.1 200 OK");
}

TEST_F(Responder, WhoReadsNothingIsCutOff) {
  start({.connections = 1, .header = 8 << 10, .patience = 50ms});
  Tcp::socket rude = connect();
  asio::write(rude, asio::buffer(std::string("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  std::string answer;
  while (answer.empty() && std::chrono::steady_clock::now() < deadline) answer = get("/metrics");
  EXPECT_EQ(status(answer), "HTTP/1.1 200 OK");
}

// The programs end like this: the context stops and is destroyed, even if clients are still
// connected.
TEST(ResponderEnds, WithConnectionsOpen) {
  asio::io_context client;
  std::vector<Tcp::socket> open;
  std::atomic<int> pages = 0;
  {
    asio::io_context io;
    auto responder = MetricsResponder::listen(io.get_executor(), {"127.0.0.1:0"}, [&pages] {
      ++pages;
      return std::string("s3o_a_total 1\n");
    });
    ASSERT_TRUE(responder) << responder.error().message;
    std::thread thread([&io] { io.run(); });
    const std::string address = (*responder)->address();
    const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    for (int i = 0; i < 3; ++i) {
      open.emplace_back(client);
      open.back().connect({asio::ip::make_address("127.0.0.1"), port});
    }
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    asio::write(open.back(), asio::buffer(request));
    std::string answer;
    error_code ended;
    asio::read_until(open.back(), asio::dynamic_buffer(answer), "s3o_a_total 1\n", ended);
    EXPECT_FALSE(ended) << ended.message();
    io.stop();
    thread.join();
    responder->reset();
  }
  EXPECT_EQ(pages, 1);
}

TEST_F(Responder, APortIsTakenOnce) {
  start();
  asio::io_context other;
  const auto second = MetricsResponder::listen(other.get_executor(), {responder_->address()},
                                               [] { return std::string(); });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::exists) << second.error().message;
  EXPECT_NE(second.error().message.find("use another port"), std::string::npos);
}

TEST(MetricsAddress, IsALoopbackAddressUnlessToldOtherwise) {
  for (const char* address : {"127.0.0.1:9751", "127.3.2.1:1", "[::1]:9751", "127.0.0.1:0"})
    EXPECT_TRUE(check_metrics_address({address}, "--metrics")) << address;
  for (const char* address : {"0.0.0.0:9751", "[::]:9751", "192.0.2.1:9751", "[2001:db8::1]:1"}) {
    EXPECT_FALSE(check_metrics_address({address}, "--metrics")) << address;
    EXPECT_TRUE(check_metrics_address({address, true}, "--metrics")) << address;
  }
  for (const char* address :
       {"", "9751", ":9751", "localhost:9751", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
        "127.0.0.1:1x", "127.0.0.1:-1", "::1:9751", "[]:1"}) {
    const auto checked = check_metrics_address({address, true}, "--metrics");
    ASSERT_FALSE(checked) << address;
    EXPECT_EQ(checked.error().code, Errc::usage);
    EXPECT_NE(checked.error().message.find("--metrics"), std::string::npos);
  }
}

}  // namespace
}  // namespace s3oram
