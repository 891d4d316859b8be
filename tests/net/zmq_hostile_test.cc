// Tests the transport among strangers: wrong keys, garbage, oversized messages.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "oramcore/base/random.h"
#include "oramcore/zmq/zmq_transport.h"
#include "tests/base/temporary_directory.h"
#include "tests/net/zmq_net.h"

namespace s3oram {
namespace {

using testing::answer;
using testing::Net;
using testing::Node;
using testing::question;

constexpr std::size_t kLargest = 1 << 20;

class Strangers : public ::testing::Test {
 protected:
  bool state_becomes(Party party, Party server, PeerState state) {
    return net_.run_until([&] { return net_.node(party).transport->state(server) == state; });
  }
  asio::ip::tcp::endpoint address(Party server) const {
    const std::string listen = net_.config(server).listen;
    const auto port = std::stoul(listen.substr(listen.rfind(':') + 1));
    return {asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)};
  }

  WorkingDirectory folder_;
  Net net_{Net::Link::tcp, 3};
};

TEST_F(Strangers, AnUnknownKeyIsRefusedAndLearnsIt) {
  net_.start(1);
  ZmqConfig stranger = net_.config(kClient);
  stranger.keys = generate_key_pair();
  auto& node = net_.start(kClient, stranger);
  EXPECT_TRUE(net_.run_until([&] {
    node.transport->send(1, question("let me in"));
    return node.transport->state(1) == PeerState::refused;
  }));
  // Nothing was sent, so nobody can have seen anything; and a known client is still served.
  EXPECT_EQ(node.transport->traffic(1).bytes_sent, 0u);
  net_.start(kClient);
  EXPECT_TRUE(net_.ask(kClient, 1, "known"));
  for (const auto& received : net_.node(1).received) EXPECT_EQ(received.message, question("known"));
}

TEST_F(Strangers, AKeyAuthorizedLaterGetsInWithoutARestart) {
  net_.start(1);
  ZmqConfig stranger = net_.config(kClient);
  stranger.keys = generate_key_pair();
  net_.start(kClient, stranger);
  ASSERT_TRUE(state_becomes(kClient, 1, PeerState::refused));
  ASSERT_TRUE(net_.node(1).transport->admit_clients({stranger.keys.public_key}));
  EXPECT_TRUE(net_.ask(kClient, 1, "now"));
  EXPECT_EQ(net_.node(kClient).transport->state(1), PeerState::connected);
}

TEST_F(Strangers, AnotherKeyThanTheServersGetsNoConnection) {
  net_.start(1);
  net_.start(2);
  ZmqConfig config = net_.config(kClient);
  config.peers[0].key = generate_key_pair().public_key;
  net_.start(kClient, config);
  ASSERT_TRUE(net_.ask(kClient, 2, "the right key"));
  EXPECT_TRUE(state_becomes(kClient, 1, PeerState::insecure));
  net_.stop(1);
  EXPECT_TRUE(state_becomes(kClient, 1, PeerState::connecting));
  net_.start(1);
  EXPECT_TRUE(state_becomes(kClient, 1, PeerState::insecure));
  EXPECT_EQ(net_.node(kClient).transport->traffic(1).bytes_received, 0u);
  EXPECT_TRUE(net_.node(1).received.empty());
}

TEST_F(Strangers, AServerCannotSpeakForAnother) {
  net_.start(1);
  ZmqConfig config = net_.config(3);
  config.self = 2;  // server 3's key, server 2's number
  config.peers = {net_.config(kClient).peers[0]};
  net_.start(2, config);
  ASSERT_TRUE(net_.ask(2, 1, "who am I?"));
  for (const auto& received : net_.node(1).received) EXPECT_EQ(received.from, 3);
}

TEST_F(Strangers, MessagesOverTheLimitAreNeitherSentNorTaken) {
  ZmqConfig config = net_.config(1);
  config.largest_message = kLargest;
  net_.start(1, config);
  net_.start(kClient);
  ASSERT_TRUE(net_.ask(kClient, 1, std::string(kLargest - 1, 'x')));  // the limit, kind included
  net_.node(kClient).transport->send(1, question(std::string(kLargest, 'y')));
  net_.node(kClient).transport->send(1, question(std::string(8 * kLargest, 'z')));
  // The connection breaks because of it, and is made again.
  ASSERT_TRUE(net_.ask(kClient, 1, "after"));
  for (const auto& received : net_.node(1).received) {
    EXPECT_LE(received.message.size(), kLargest);
    EXPECT_TRUE(received.message[1] == 'x' || received.message == question("after"));
  }

  auto& server = *net_.node(1).transport;
  const auto dropped = server.traffic(kClient).dropped;  // answers on the broken connection
  server.send(kClient, answer(std::string(kLargest, 'x')));
  EXPECT_EQ(server.traffic(kClient).dropped, dropped + 1);
}

TEST_F(Strangers, AnOversizedAnswerDoesNotLoseTheServerForGood) {
  net_.start(1);
  ZmqConfig config = net_.config(kClient);
  config.largest_message = kLargest;
  net_.start(kClient, config);
  ASSERT_TRUE(net_.ask(kClient, 1, "before"));
  net_.node(1).transport->send(kClient, answer(std::string(2 * kLargest, 'x')));
  ASSERT_TRUE(net_.run_until(
      [&] { return net_.node(kClient).transport->state(1) != PeerState::connected; }));
  EXPECT_TRUE(net_.ask(kClient, 1, "after"));
}

TEST_F(Strangers, GarbageOnThePortIsNotDelivered) {
  net_.start(1);
  net_.start(kClient);
  ASSERT_TRUE(net_.ask(kClient, 1, "before"));

  Prg random(Seed{1}, as_bytes("garbage"));
  const std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03\x00", 12);  // ZMTP 3.0
  const auto mechanism = [](std::string name) {
    name.resize(20, '\0');
    return name + std::string(32, '\0');
  };
  std::vector<std::string> openings{"",
                                    "GET / HTTP/1.1\r\n\r\n",
                                    greeting,
                                    greeting + mechanism("CURVE"),
                                    greeting + mechanism("NULL"),
                                    greeting + mechanism("NULL") + "\x04\x05READY",
                                    greeting + mechanism("CURVE") + "\x04\xc8\x05HELLO"};
  int closed = 0;
  int attempts = 0;
  for (const auto& opening : openings) {
    for (const std::size_t size : {0, 1, 63, 64, 300, 70'000}) {
      Bytes noise(size);
      random.fill(noise);
      auto bytes = std::make_shared<std::string>(opening);
      bytes->append(noise.begin(), noise.end());
      auto socket = std::make_shared<asio::ip::tcp::socket>(net_.io());
      socket->connect(address(1));
      ++attempts;
      asio::async_write(*socket, asio::buffer(*bytes),
                        [socket, bytes, &closed](boost::system::error_code, std::size_t) {
                          socket->close();
                          ++closed;
                        });
    }
  }
  ASSERT_TRUE(net_.run_until([&] { return closed == attempts; }));
  ASSERT_TRUE(net_.ask(kClient, 1, "after"));
  for (const auto& [from, message] : net_.node(1).received) {
    EXPECT_EQ(from, kClient);
    EXPECT_TRUE(message == question("before") || message == question("after"));
  }
}

}  // namespace
}  // namespace s3oram
