// Tests the transport among honest parties, over TCP and over unix sockets.
#include "oramcore/zmq/zmq_transport.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/base/temporary_directory.h"
#include "tests/net/zmq_net.h"

namespace s3oram {
namespace {

using testing::answer;
using testing::message;
using testing::Net;
using testing::question;

class Links : public ::testing::TestWithParam<Net::Link> {
 protected:
  WorkingDirectory folder_;
  Net net_{GetParam(), 3};
};

INSTANTIATE_TEST_SUITE_P(Zmq, Links, ::testing::Values(Net::Link::tcp, Net::Link::ipc),
                         [](const auto& link) {
                           return link.param == Net::Link::tcp ? "Tcp" : "Ipc";
                         });

TEST_P(Links, EveryoneAsksEveryServerAndIsAnswered) {
  net_.start_all();
  for (Party from = 0; from <= 3; ++from) {
    for (Party to = 1; to <= 3; ++to) {
      if (from == to) continue;
      EXPECT_TRUE(net_.ask(from, to, "from " + std::to_string(from))) << int{from} << int{to};
      EXPECT_EQ(net_.node(from).transport->state(to), PeerState::connected);
    }
  }
  // Each server knows who asked it.
  for (Party to = 1; to <= 3; ++to) {
    for (const auto& [from, message] : net_.node(to).received) {
      if (message[0] == static_cast<std::uint8_t>(MessageKind::question)) {
        EXPECT_EQ(testing::body(message), "from " + std::to_string(from));
      }
    }
  }
}

TEST_P(Links, TwoServersAskEachOtherAtOnce) {
  net_.start_all();
  ASSERT_TRUE(net_.ask(1, 2, "warm up"));
  ASSERT_TRUE(net_.ask(2, 1, "warm up"));
  constexpr int kMessages = 500;
  for (int i = 0; i < kMessages; ++i) {
    net_.node(1).transport->send(2, question("one " + std::to_string(i)));
    net_.node(2).transport->send(1, question("two " + std::to_string(i)));
  }
  const auto answers = [&](Party party, const std::string& prefix) {
    int count = 0;
    for (const auto& received : net_.node(party).received)
      count += received.message == answer(prefix + std::to_string(count));
    return count;
  };
  EXPECT_TRUE(net_.run_until(
      [&] { return answers(1, "one ") == kMessages && answers(2, "two ") == kMessages; }));
}

TEST_P(Links, CarriesLargeMessagesUnaltered) {
  net_.start_all();
  std::string large(20 << 20, '\0');
  for (std::size_t i = 0; i < large.size(); ++i)
    large[i] = static_cast<char>(i * 2654435761U >> 24);
  EXPECT_TRUE(net_.ask(kClient, 1, "small"));
  net_.node(kClient).transport->send(1, question(large));
  const auto& received = net_.node(kClient).received;
  EXPECT_TRUE(net_.run_until([&] { return received.back().message == answer(large); }));
}

TEST_P(Links, BulkDoesNotHoldUpTheRest) {
  net_.start_all();
  auto& client = net_.node(kClient);
  const auto bulk = [](MessageKind kind) {
    return message(kind, std::string(std::size_t{100} << 20, 'x'));
  };
  ASSERT_TRUE(net_.run_until([&] { return client.connections[1] == 2; }));
  client.transport->send(1, bulk(MessageKind::bulk_question));
  client.transport->send(1, question("urgent"));
  ASSERT_TRUE(net_.run_until([&] { return client.received.size() == 2; }));
  EXPECT_EQ(client.received[0].message, answer("urgent"));
  EXPECT_TRUE(client.received[1].message == bulk(MessageKind::bulk_answer));
}

TEST_P(Links, CountsTraffic) {
  net_.start_all();
  net_.node(1).transport->send(kClient, answer("nobody asked"));
  EXPECT_EQ(net_.node(1).transport->traffic(kClient).dropped, 1u);
  ASSERT_TRUE(net_.ask(kClient, 1, "0123456789"));
  const auto at_client = net_.node(kClient).transport->traffic(1);
  const auto at_server = net_.node(1).transport->traffic(kClient);
  EXPECT_GT(at_client.bytes_sent, 0u);
  EXPECT_EQ(at_client.bytes_sent % 11, 0u);
  EXPECT_EQ(at_client.bytes_received % 11, 0u);
  EXPECT_LE(at_server.bytes_received, at_client.bytes_sent);
  EXPECT_LE(at_client.bytes_received, at_server.bytes_sent);
  EXPECT_EQ(net_.node(kClient).transport->traffic(2).bytes_received, 0u);
}

TEST_P(Links, ConnectsAgainToARestartedServer) {
  net_.start_all();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(net_.ask(kClient, 2, "before " + std::to_string(round)));
    ASSERT_TRUE(net_.ask(3, 2, "before " + std::to_string(round)));
    net_.stop(2);
    ASSERT_TRUE(net_.run_until(
        [&] { return net_.node(kClient).transport->state(2) == PeerState::connecting; }));
    const auto dropped = net_.node(kClient).transport->traffic(2).dropped;
    // Nothing is queued for the party, once ZeroMQ has torn down the old connection.
    ASSERT_TRUE(net_.run_until([&] {
      net_.node(kClient).transport->send(2, question("nobody is there"));
      return net_.node(kClient).transport->traffic(2).dropped > dropped;
    }));
    net_.start(2);
    ASSERT_TRUE(net_.ask(kClient, 2, "after " + std::to_string(round)));
    ASSERT_TRUE(net_.ask(3, 2, "after " + std::to_string(round)));
  }
}

// Server 2 is replaced. Messages of its previous machine, whose connections are still open, are
// ignored.
TEST(PeerExchange, TheNewOneIsReachedAndTheFormerOneIsNotHeard) {
  Net net(Net::Link::tcp, 3);
  net.start_all();
  ASSERT_TRUE(net.ask(1, 2, "to the former"));
  ASSERT_TRUE(net.ask(2, 1, "of the former"));
  ZmqConfig config = net.config(2);
  config.keys = generate_key_pair();
  config.listen = fmt::format("tcp://127.0.0.1:{}", testing::free_port());
  const auto made = make_zmq_transport(net.io().get_executor(), config);
  ASSERT_TRUE(made);
  std::vector<std::string> heard;
  (*made)->on_message([&](Party, Bytes text) { heard.push_back(testing::body(text)); });
  ZmqTransport& first = *net.node(1).transport;
  const PeerAddress peer{2, config.listen, config.keys.public_key};
  EXPECT_EQ(first.set_peer({9, peer.endpoint, peer.key}).error().code, Errc::usage);
  EXPECT_EQ(first.set_peer({2, peer.endpoint, net.keys(3).public_key}).error().code, Errc::usage);
  ASSERT_TRUE(net.ask(2, 1, "still of the former"));
  ASSERT_TRUE(first.set_peer(peer));
  ASSERT_TRUE(first.set_peer(peer));
  const auto heard_of = [&](const std::string& text) {
    return std::ranges::any_of(net.node(1).received, [&](const testing::Received& each) {
      return each.from == 2 && testing::body(each.message) == text;
    });
  };
  const auto until_heard = [&](auto send, auto is_heard) {
    return net.run_until([&] {
      if (is_heard()) return true;
      send();
      net.node(2).transport->send(1, question("too late"));
      return false;
    });
  };
  EXPECT_TRUE(until_heard([&] { first.send(2, question("to the new one")); },
                          [&] { return !heard.empty(); }));
  EXPECT_TRUE(until_heard([&] { (*made)->send(1, question("of the new one")); },
                          [&] { return heard_of("of the new one"); }));
  EXPECT_FALSE(heard_of("too late"));
  EXPECT_EQ(heard.front(), "to the new one");
}

TEST(RevokedClient, IsNotHeardOverItsOpenConnection) {
  Net net(Net::Link::tcp, 1);
  net.start(1);
  net.start(kClient);
  ASSERT_TRUE(net.ask(kClient, 1, "still admitted"));
  const KeyPair other = generate_key_pair();
  ASSERT_TRUE(net.node(1).transport->admit_clients({other.public_key}));
  const auto revoked = std::move(net.node(kClient).transport);
  revoked->send(1, question("no longer"));

  ZmqConfig config = net.config(kClient);
  config.keys = other;
  net.start(kClient, config);
  ASSERT_TRUE(net.ask(kClient, 1, "the other"));
  // The revoked client's connection is an open one, so its question arrives within a few more.
  for (int i = 0; i < 20; ++i) {
    revoked->send(1, question("no longer"));
    ASSERT_TRUE(net.ask(kClient, 1, "the other's " + std::to_string(i)));
  }
  EXPECT_EQ(revoked->state(1), PeerState::connected);
  for (const auto& received : net.node(1).received)
    EXPECT_NE(testing::body(received.message), "no longer");

  ASSERT_TRUE(net.node(1).transport->admit_clients({other.public_key, net.keys(0).public_key}));
  EXPECT_TRUE(net.run_until([&] {
    revoked->send(1, question("admitted again"));
    return testing::body(net.node(1).received.back().message) == "admitted again";
  }));
}

TEST_P(Links, AnswersGoToARestartedClient) {
  net_.start_all();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(net_.ask(kClient, 1, "round " + std::to_string(round)));
    net_.start(kClient);
  }
}

TEST_P(Links, ServersMayStartAfterTheClient) {
  net_.start(kClient);
  net_.node(kClient).transport->send(1, question("too early"));
  for (Party server = 1; server <= 3; ++server) net_.start(server);
  EXPECT_TRUE(net_.ask(kClient, 1, "in time"));
  for (const auto& received : net_.node(1).received)
    EXPECT_NE(received.message, question("too early"));
}

TEST_P(Links, DropsWhatHasNoKindOrAddressee) {
  net_.start_all();
  ASSERT_TRUE(net_.ask(kClient, 1, "first"));
  auto& client = *net_.node(kClient).transport;
  const auto dropped = [&] { return client.traffic(1).dropped + client.traffic(9).dropped; };
  const auto dropped_before = dropped();
  client.send(1, Bytes{});
  client.send(1, Bytes{'X', 'Y'});
  client.send(1, answer("clients do not answer"));
  client.send(9, question("there is no server 9"));
  EXPECT_EQ(dropped(), dropped_before + 4);
  ASSERT_TRUE(net_.ask(kClient, 1, "last"));
  for (const auto& [from, message] : net_.node(1).received)
    EXPECT_TRUE(message == question("first") || message == question("last"));
}

TEST_P(Links, SaysWhoListensAlready) {
  net_.start(1);
  const auto second = make_zmq_transport(net_.io().get_executor(), net_.config(1));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::exists);
  EXPECT_NE(second.error().message.find(net_.config(1).listen), std::string::npos);
}

// The parties of a real deployment share no executor.
TEST_P(Links, EachPartyOnAnExecutorOfItsOwn) {
  asio::io_context other;
  net_.start(1);
  auto client = make_zmq_transport(other.get_executor(), net_.config(kClient));
  ASSERT_TRUE(client) << client.error().message;
  std::vector<Bytes> received;
  (*client)->on_message([&](Party, Bytes message) { received.push_back(std::move(message)); });
  EXPECT_TRUE(net_.run_until([&] {
    if ((*client)->state(1) == PeerState::connected && received.empty())
      (*client)->send(1, question("hello"));
    other.restart();
    other.poll();
    return !received.empty();
  }));
  EXPECT_EQ(received.at(0), answer("hello"));
}

TEST(ZmqConfigErrors, NameTheEndpoint) {
  asio::io_context io;
  const Net net(Net::Link::tcp, 2);
  const auto expect_names = [&](const ZmqConfig& config, const std::string& name,
                                Errc code = Errc::usage) {
    const auto transport = make_zmq_transport(io.get_executor(), config);
    ASSERT_FALSE(transport);
    EXPECT_EQ(transport.error().code, code);
    const std::string& text = transport.error().message;
    EXPECT_NE(text.find(name), std::string::npos) << text;
  };

  ZmqConfig config = net.config(1);
  config.peers[0].key.reset();
  expect_names(config, config.peers[0].endpoint);

  config = net.config(kClient);
  config.keys = KeyPair{};
  expect_names(config, "key pair");

  config = net.config(1);
  config.listen = "127.0.0.1:80";
  expect_names(config, "127.0.0.1:80");

  config = net.config(1);
  config.listen = "tcp://192.0.2.77:5760";
  expect_names(config, "tcp://192.0.2.77:5760", Errc::failed);  // it may be there later

  config = net.config(1);
  config.peers[0].endpoint = "tcp://nowhere";
  expect_names(config, "tcp://nowhere");

  config = net.config(kClient);
  config.peers[1].party = config.peers[0].party;
  expect_names(config, config.peers[1].endpoint);

  config = net.config(kClient);
  config.peers[0].party = 128;
  expect_names(config, config.peers[0].endpoint);

  config = net.config(1);
  config.client_keys = {*config.peers[0].key};
  expect_names(config, to_text(*config.peers[0].key));

  config = net.config(kClient);
  config.listen = "tcp://127.0.0.1:*";
  expect_names(config, "client");
}

TEST(ZmqListener, TellsThePortItFound) {
  asio::io_context io;
  ZmqConfig config = Net(Net::Link::tcp, 1).config(1);
  config.listen = "tcp://127.0.0.1:*";
  const auto transport = make_zmq_transport(io.get_executor(), config);
  ASSERT_TRUE(transport) << transport.error().message;
  EXPECT_TRUE((*transport)->endpoint().starts_with("tcp://127.0.0.1:"));
  EXPECT_FALSE((*transport)->endpoint().ends_with("*"));
}

}  // namespace
}  // namespace s3oram
