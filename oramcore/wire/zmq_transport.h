// Transport over ZeroMQ. A server listens on one ROUTER socket; the client and every server
// connect a DEALER socket to each (other) server, and answers come back on the connection that the
// question used. Over TCP every socket uses CURVE and the listener admits only known keys (ZAP), so
// that an unknown key is refused before any message is parsed. Over ipc:// sockets, which lie
// in a directory of mode 0700, the peer's uid must be ours.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/error.h"
#include "oramcore/wire/transport.h"

namespace s3oram {

/// A CURVE (X25519) key. Written as 43 characters of unpadded base64url: safe in a shell.
using PublicKey = std::array<std::uint8_t, 32>;
struct KeyPair {
  PublicKey public_key{};
  std::array<std::uint8_t, 32> secret_key{};
};
KeyPair generate_key_pair();
std::string to_text(const PublicKey& key);
Result<PublicKey> parse_public_key(const std::string& text);

/// Another server: where it listens ("tcp://host:port" or "ipc://path") and, for tcp, its key.
struct PeerAddress {
  Party party = 0;
  std::string endpoint;
  std::optional<PublicKey> key;
};

struct ZmqConfig {
  Party self = kClient;
  KeyPair keys;                             // ignored where every endpoint is ipc
  std::string listen;                       // empty for the client
  std::vector<PeerAddress> peers;           // the servers to connect to
  std::vector<PublicKey> client_keys;       // a listener admits these as party 0
  std::size_t largest_message = 256 << 20;  // more is refused (ZMQ_MAXMSGSIZE)
};

/// Opens the sockets. `executor` must run on one thread. Errors name the endpoint and the reason.
Result<std::unique_ptr<Transport>> make_zmq_transport(Executor executor, const ZmqConfig& config);

}  // namespace s3oram
