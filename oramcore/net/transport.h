// Carries messages between parties. The network is passed in: ZeroMQ in use, memory in tests.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "oramcore/base/bytes.h"
#include "oramcore/base/party.h"

namespace s3oram {

/// Messages carried, in bytes, without the overhead of what carries them; `dropped` counts those
/// that could not be sent.
struct Traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t dropped = 0;
};

/// The first byte of a message. A question goes to a server; an answer goes where the party asked
/// from last in the same way. What is bulk is large, and nobody waits for it at the moment: it
/// should not hold up the rest.
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

/// What a party takes before it knows its volume: the first messages, and the parts of Adopt.
inline constexpr std::size_t kLargestWithoutVolume = 1 << 20;

/// Best effort: a message may be lost, duplicated or reordered, but it is never altered, and
/// `from` is authentic (CURVE key or, on a local socket, the peer's uid). Rpc makes it reliable.
/// Everything happens on the executor of the party that owns the transport.
class Transport {
 public:
  using Handler = std::function<void(Party from, Bytes message)>;

  virtual ~Transport() = default;
  /// Called once, before any message is sent.
  virtual void on_message(Handler handler) = 0;
  virtual void send(Party to, Bytes message) = 0;
  /// From now on messages of up to `largest` bytes are carried, and no larger ones. A transport
  /// that trusts whoever sends takes any.
  virtual void limit_messages(std::size_t largest) { static_cast<void>(largest); }
  /// With one party; zeros where nobody counts.
  virtual Traffic traffic(Party party) const {
    static_cast<void>(party);
    return {};
  }
  /// Whenever a connection to `to` comes about, after all messages to it may have been lost. A
  /// transport that cannot tell never does.
  virtual void on_connection(std::function<void(Party to)> handler) {
    static_cast<void>(std::move(handler));
  }
};

}  // namespace s3oram
