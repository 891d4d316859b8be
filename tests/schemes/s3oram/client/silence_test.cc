// Which servers are called silent, and since when.
#include <gtest/gtest.h>

#include "oramcore/schemes/s3oram/client/servers.h"
#include "tests/sim/cluster.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;
using test::FastClock;
using test::Network;

constexpr Party kServer = 1;

class Silence : public testing::Test {
 protected:
  Silence() {
    network_.filter = [this](Party, Party, const Bytes&) { return connected_; };
    server_.serve([this](Party, MessageType type, Payload) -> Task<Result<Bytes>> {
      while (type != MessageType::traffic && busy_) co_await never_.wait();
      co_return encode(TrafficAnswer{});
    });
  }

  /// Asks for the traffic, as a status does, and waits for the outcome.
  bool ask_for_traffic() {
    std::optional<bool> answered;
    spawn(context_.get_executor(), [](Servers& servers, std::optional<bool>& out) -> Task<void> {
      auto answer = co_await servers.traffic(kServer, 1s);
      out = answer.has_value();
    }(servers_, answered));
    while (!answered && step()) continue;
    return answered.value_or(false);
  }
  /// A request that may take for ever.
  void ask_for_work() {
    spawn(context_.get_executor(), [](Servers& servers) -> Task<void> {
      auto answer =
          co_await servers.ask_once(kServer, PrepareRequest::kType, Bytes(Rpc::kHeaderSize));
      static_cast<void>(answer);
    }(servers_));
    settle();
  }
  void settle() {
    context_.restart();
    context_.poll();
  }
  bool step() {
    settle();
    return clock_.advance();
  }
  void pass(Duration time) {
    bool over = false;
    clock_.call_after(time, [&over] { over = true; });
    while (!over && step()) continue;
    settle();
  }
  void TearDown() override {
    servers_.stop();
    busy_ = false;
    never_.notify_all();
    settle();
  }

  asio::io_context context_{1};
  Network network_{context_.get_executor()};
  FastClock clock_{context_};
  Prg random_{Seed{}, as_view("silence")};
  std::unique_ptr<Transport> client_port_ = network_.attach(kClient),
                             server_port_ = network_.attach(kServer);
  Servers servers_{context_.get_executor(), clock_, random_, *client_port_, VolumeId{}, 1};
  Rpc server_{context_.get_executor(), clock_, random_, *server_port_};
  Event never_;
  bool connected_ = true, busy_ = true;
};

TEST_F(Silence, WhoAnswersIsNotSilent) {
  EXPECT_FALSE(servers_.silent_for(kServer));
  EXPECT_TRUE(ask_for_traffic());
  pass(100s);
  EXPECT_FALSE(servers_.silent_for(kServer));  // nobody has asked
}

TEST_F(Silence, CountsFromTheFirstQuestionWithoutAnswer) {
  ASSERT_TRUE(ask_for_traffic());
  pass(100s);
  connected_ = false;
  EXPECT_FALSE(ask_for_traffic());
  ASSERT_TRUE(servers_.silent_for(kServer));
  EXPECT_NEAR(std::chrono::duration<double>(*servers_.silent_for(kServer)).count(), 1, 0.6);
  pass(30s);
  EXPECT_FALSE(ask_for_traffic());
  EXPECT_NEAR(std::chrono::duration<double>(*servers_.silent_for(kServer)).count(), 32, 1.2);
  connected_ = true;
  EXPECT_TRUE(ask_for_traffic());
  EXPECT_FALSE(servers_.silent_for(kServer));
}

TEST_F(Silence, AMomentIsNone) {
  ASSERT_TRUE(ask_for_traffic());
  connected_ = false;
  EXPECT_FALSE(ask_for_traffic());
  EXPECT_FALSE(servers_.silent_for(kServer));  // it answered a second ago
  pass(5s);
  EXPECT_TRUE(servers_.silent_for(kServer));
}

TEST_F(Silence, WhoWorksOnALongRequestIsNotSilent) {
  ask_for_work();
  for (int i = 0; i < 10; ++i) {
    pass(10s);
    EXPECT_TRUE(ask_for_traffic());
    EXPECT_FALSE(servers_.silent_for(kServer)) << i;
  }
  connected_ = false;
  pass(20s);
  ASSERT_TRUE(servers_.silent_for(kServer));
  EXPECT_NEAR(std::chrono::duration<double>(*servers_.silent_for(kServer)).count(), 20, 1);
}

}  // namespace
}  // namespace s3oram
