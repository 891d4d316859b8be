// Transport over ZeroMQ. A server listens on one ROUTER socket; the client and every server
// connect two DEALER sockets to each (other) server, one of them for bulk messages, so that on a
// slow line a query does not queue behind an upload. Answers come back on the connection that the
// question used; the first byte of every message says what it is (MessageKind). Over TCP every
// socket uses CURVE and the listener admits only known keys (ZAP), so that an unknown key is
// refused before any message is parsed. Over ipc:// sockets, which lie in a directory of mode
// 0700, the peer's uid must be ours. Before a TCP listener stands a Gate.
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

/// Servers are numbered 1..kLastServer here: an ipc routing id keeps one bit for itself.
constexpr Party kLastServer = 127;

/// Another server: where it listens ("tcp://host:port" or "ipc://path") and, for tcp, its key.
struct PeerAddress {
  Party party = 0;
  std::string endpoint;
  std::optional<PublicKey> key;
};

struct ZmqConfig {
  Party self = kClient;
  KeyPair keys;                        // ignored where every endpoint is ipc
  std::string listen;                  // empty for the client
  std::vector<PeerAddress> peers;      // the servers to connect to
  std::vector<PublicKey> client_keys;  // a listener admits these as party 0
  std::vector<Network> allow;          // whence a TCP listener is reached; empty: anywhere
  /// Larger ones are neither sent nor taken. limit_messages() changes it, but not for answers from
  /// servers.
  std::size_t largest_message = kLargestWithoutVolume;
};

/// Of our connection to a server, which is tried again for ever.
enum class PeerState {
  connecting,
  connected,
  refused,  // it does not know our key
  insecure  // it breaks connections off before they are secure: a wrong key, or another program
};

class ZmqTransport : public Transport {
 public:
  virtual PeerState state(Party server) const = 0;
  /// Since when that is its state.
  virtual std::chrono::steady_clock::time_point state_since(Party server) const = 0;
  /// Where the listener listens, with the port that "*" became; empty for the client.
  virtual std::string endpoint() const = 0;
  /// Replaces the client keys that a TCP listener admits from now on.
  virtual Status admit_clients(const std::vector<PublicKey>& keys) = 0;
};

/// Opens the sockets. `executor` must run on one thread and outlive the transport, which is made,
/// used and destroyed on it; messages arrive from the executor's next turn on. Errors name the
/// endpoint and the reason: usage (the configuration), exists (another process listens there).
Result<std::unique_ptr<ZmqTransport>> make_zmq_transport(Executor executor,
                                                         const ZmqConfig& config);

}  // namespace s3oram
