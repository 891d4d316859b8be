// Carries messages between parties: over ZeroMQ in production, in memory in tests.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "oramcore/base/bytes.h"
#include "oramcore/base/party.h"

namespace s3oram {

/// Counts the bytes of the messages carried, without the overhead of the network, and the messages
/// that could not be sent (`dropped`).
struct Traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t dropped = 0;
};

/// The first byte of a message. A question goes to a server. An answer goes to the connection on
/// which the party last asked, bulk or not. Bulk messages are large and not urgent, and use a
/// separate connection so that they do not delay the others.
enum class MessageKind : std::uint8_t {
  question = 'Q',
  answer = 'A',
  bulk_question = 'q',
  bulk_answer = 'a',
};
inline MessageKind kind_of(ByteSpan message) {
  return message.empty() ? MessageKind{} : MessageKind{message[0]};
}
inline bool is_question(ByteSpan message) {
  const MessageKind kind = kind_of(message);
  return kind == MessageKind::question || kind == MessageKind::bulk_question;
}
inline bool is_answer(ByteSpan message) {
  const MessageKind kind = kind_of(message);
  return kind == MessageKind::answer || kind == MessageKind::bulk_answer;
}

/// The largest message that a party accepts before it knows its volume. The first messages may
/// contain parts of the state with which a server re-enrols.
inline constexpr std::size_t kLargestWithoutVolume = 1 << 20;

/// Delivery is best effort: a message may be lost, duplicated or reordered. It is never altered,
/// and `from` is authentic (proved by its CURVE key or, on a local socket, by the peer's uid). Rpc
/// makes it reliable. Everything happens on the executor of the party that owns the transport.
class Transport {
 public:
  using Handler = std::function<void(Party from, Bytes message)>;

  virtual ~Transport() = default;
  /// Sets the handler. Must be called once, before any message is sent.
  virtual void on_message(Handler handler) = 0;
  virtual void send(Party to, Bytes message) = 0;
  /// From now on, carries messages of up to `largest` bytes, and no larger ones. A transport that
  /// trusts its senders accepts any size.
  virtual void limit_messages(std::size_t largest) { static_cast<void>(largest); }
  /// Returns the traffic with one party; zeros if the transport does not count.
  virtual Traffic traffic(Party party) const {
    static_cast<void>(party);
    return {};
  }
  /// Calls `handler` whenever a connection to `to` is made; messages sent before may all be lost. A
  /// transport without connections never calls it.
  virtual void on_connection(std::function<void(Party to)> handler) {
    static_cast<void>(std::move(handler));
  }
};

}  // namespace s3oram
