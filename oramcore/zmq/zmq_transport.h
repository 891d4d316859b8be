// Transport over ZeroMQ. A server listens on one ROUTER socket. The client and every server connect
// two DEALER sockets to each (other) server, one of them for bulk messages, so that on a slow line
// a query does not queue behind an upload. Answers return on the connection of their question. The
// first byte of every message is its MessageKind. Over TCP, every socket uses CURVE, and the
// listener admits only known keys (ZAP), so that an unknown key is refused before any message is
// parsed; a Gate accepts the connections. Over ipc:// sockets, which lie in a directory with mode
// 0700, the peer's uid must be ours.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/curve_keys.h"
#include "oramcore/base/error.h"
#include "oramcore/net/transport.h"
#include "oramcore/zmq/allow_list.h"

namespace s3oram {

/// Servers are numbered 1..kLastServer here, because an ipc routing id reserves one bit.
constexpr Party kLastServer = 127;

/// Another server: where it listens ("tcp://host:port" or "ipc://path") and, for TCP, its key.
struct PeerAddress {
  Party party = 0;
  std::string endpoint;
  std::optional<PublicKey> key;
};

struct ZmqConfig {
  Party self = kClient;
  KeyPair keys;                        // ignored if every endpoint is ipc
  std::string listen;                  // empty for the client
  std::vector<PeerAddress> peers;      // the servers to connect to
  std::vector<PublicKey> client_keys;  // a listener admits these as party 0
  std::vector<Network> allow;          // networks that may reach a TCP listener; any if empty
  /// Larger messages are neither sent nor accepted. limit_messages() changes this limit, but not
  /// for answers from servers.
  std::size_t largest_message = kLargestWithoutVolume;
};

/// The state of our connection to a server. Connecting is retried forever.
enum class PeerState {
  connecting,
  connected,
  refused,  // the server does not know our key
  insecure  // it closes connections during the handshake: a wrong key, or another program
};

class ZmqTransport : public Transport {
 public:
  virtual PeerState state(Party server) const = 0;
  /// Returns when the state last changed.
  virtual std::chrono::steady_clock::time_point state_since(Party server) const = 0;
  /// Returns the listener's endpoint, with the port that was chosen for "*"; empty for the client.
  virtual std::string endpoint() const = 0;
  /// Replaces the client keys that a TCP listener admits from now on. Messages under a key that is
  /// no longer among them do not count, even over open connections.
  virtual Status admit_clients(const std::vector<PublicKey>& keys) = 0;
  /// Replaces the address and key of one of the servers. Messages under its earlier key no longer
  /// count, even over open connections. Errors: usage (there is no such server, or the address or
  /// key cannot be used).
  virtual Status set_peer(const PeerAddress& peer) = 0;
};

/// Opens the sockets. `executor` must run on one thread and outlive the transport, which is made,
/// used and destroyed on it. Messages arrive from the executor's next turn on. Errors, naming the
/// endpoint and the reason: usage (the configuration), exists (another process listens there).
Result<std::unique_ptr<ZmqTransport>> make_zmq_transport(Executor executor,
                                                         const ZmqConfig& config);

}  // namespace s3oram
