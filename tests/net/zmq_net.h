// Parties on one io_context, for tests of the ZeroMQ transport.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "oramcore/zmq/zmq_transport.h"

namespace s3oram::testing {

/// The largest message, unless a test changes it.
inline constexpr std::size_t kLargestMessage = 256 << 20;

struct Received {
  Party from;
  Bytes message;
};

/// Returns a message of the given kind; its body distinguishes it from others.
Bytes message(MessageKind kind, const std::string& body);
Bytes question(const std::string& body);
Bytes answer(const std::string& body);
std::string body(const Bytes& message);

/// Returns a TCP port of the loopback interface that was free a moment ago.
unsigned short free_port();

/// A transport, and the messages that reached it. If `echoes`, it answers every request with its
/// body.
struct Node {
  std::unique_ptr<ZmqTransport> transport;
  std::vector<Received> received;
  std::map<Party, unsigned> connections;  // connections made, by server
};

/// One client and some servers that all know each other.
class Net {
 public:
  enum class Link { tcp, ipc };
  Net(Link link, unsigned servers);

  /// Returns the usual configuration of a party; a test may change it.
  ZmqConfig config(Party party) const;
  /// Starts (or restarts) a party. Servers echo the body of every request as the answer.
  Node& start(Party party);
  Node& start(Party party, const ZmqConfig& config);
  void stop(Party party);
  void start_all();
  Node& node(Party party) { return *nodes_[party]; }
  const KeyPair& keys(Party party) const { return keys_[party]; }
  asio::io_context& io() { return io_; }

  /// Runs all parties until `done`. Returns false if that takes longer than a generous deadline.
  bool run_until(const std::function<bool()>& done);
  /// Asks again and again, as Rpc would, until there is an answer. Returns false at the deadline.
  bool ask(Party from, Party to, const std::string& text);

 private:
  asio::io_context io_;
  Link link_;
  std::vector<std::string> endpoints_;
  std::vector<KeyPair> keys_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace s3oram::testing
