// Starts parties with real sockets, and passes messages between them.
#include "tests/net/zmq_net.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace s3oram::testing {
namespace {

constexpr std::chrono::seconds kDeadline{30};
constexpr std::chrono::milliseconds kAskAgain{50};

bool holds(const Node& node, Party from, const Bytes& wanted) {
  return std::any_of(node.received.begin(), node.received.end(), [&](const Received& received) {
    return received.from == from && received.message == wanted;
  });
}

}  // namespace

Bytes message(MessageKind kind, const std::string& text) {
  Bytes result(1 + text.size(), static_cast<std::uint8_t>(kind));
  std::copy(text.begin(), text.end(), result.begin() + 1);
  return result;
}
Bytes question(const std::string& text) { return message(MessageKind::question, text); }
Bytes answer(const std::string& text) { return message(MessageKind::answer, text); }
std::string body(const Bytes& whole) { return {whole.begin() + 1, whole.end()}; }

unsigned short free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

Net::Net(Link link, unsigned servers) : link_(link), keys_(servers + 1) {
  for (unsigned party = 0; party <= servers; ++party) {
    keys_[party] = generate_key_pair();
    endpoints_.push_back(party == kClient    ? ""
                         : link == Link::tcp ? "tcp://127.0.0.1:" + std::to_string(free_port())
                                             : "ipc://" + std::to_string(party) + ".sock");
  }
  nodes_.resize(servers + 1);
}

ZmqConfig Net::config(Party party) const {
  ZmqConfig config;
  config.self = party;
  config.largest_message = kLargestMessage;
  config.listen = endpoints_[party];
  if (link_ == Link::tcp) {
    config.keys = keys_[party];
    if (party != kClient) config.client_keys = {keys_[kClient].public_key};
  }
  for (Party other = 1; other < endpoints_.size(); ++other) {
    if (other == party) continue;
    config.peers.push_back({other, endpoints_[other], std::nullopt});
    if (link_ == Link::tcp) config.peers.back().key = keys_[other].public_key;
  }
  return config;
}

Node& Net::start(Party party) { return start(party, config(party)); }

Node& Net::start(Party party, const ZmqConfig& config) {
  nodes_[party].reset();
  auto transport = make_zmq_transport(io_.get_executor(), config);
  if (!transport) throw std::runtime_error(transport.error().message);
  auto node = std::make_unique<Node>();
  node->transport = std::move(*transport);
  node->transport->on_message([node = node.get()](Party from, Bytes received) {
    const MessageKind kind{received[0]};
    if (kind == MessageKind::question)
      node->transport->send(from, answer(body(received)));
    else if (kind == MessageKind::bulk_question)
      node->transport->send(from, message(MessageKind::bulk_answer, body(received)));
    node->received.push_back({from, std::move(received)});
  });
  node->transport->on_connection([node = node.get()](Party to) { ++node->connections[to]; });
  nodes_[party] = std::move(node);
  return *nodes_[party];
}

void Net::stop(Party party) { nodes_[party].reset(); }

void Net::start_all() {
  for (Party party = 0; party < nodes_.size(); ++party) start(party);
}

bool Net::run_until(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    io_.restart();
    io_.run_one_for(kAskAgain);
  }
  return true;
}

bool Net::ask(Party from, Party to, const std::string& text) {
  auto next = std::chrono::steady_clock::now();
  return run_until([&] {
    if (holds(node(from), to, answer(text))) return true;
    if (std::chrono::steady_clock::now() >= next) {
      node(from).transport->send(to, question(text));
      next = std::chrono::steady_clock::now() + kAskAgain;
    }
    return false;
  });
}

}  // namespace s3oram::testing
