// Messages made by hand, as any party could send them.
#pragma once

#include <cstring>

#include "tests/sim/cluster.h"

namespace s3oram::test {

inline std::uint16_t u16_at(ByteSpan message, std::size_t at) {
  std::uint16_t value = 0;
  std::memcpy(&value, message.data() + at, sizeof value);
  return value;
}
inline MessageType type_of(ByteSpan message) {
  return static_cast<MessageType>(u16_at(message, 2));
}
inline std::uint64_t number_of(ByteSpan message) {
  std::uint64_t value = 0;
  std::memcpy(&value, message.data() + 8, sizeof value);
  return value;
}

/// A request as Rpc sends it, for the first opening of a session.
inline constexpr std::uint8_t kOpening = 1;
inline Bytes request(MessageType type, std::uint64_t number, Bytes encoded) {
  encoded[0] = static_cast<std::uint8_t>(question_of(type).kind);
  encoded[1] = Rpc::kWireVersion;
  encoded[2] = static_cast<std::uint8_t>(type);
  encoded[6] = kOpening;
  std::memcpy(encoded.data() + 8, &number, sizeof number);
  return encoded;
}
template <class T>
Bytes request(std::uint64_t number, const T& message) {
  return request(T::kType, number, encode(message));
}

/// Sends requests to a server without a session, as the client's party.
class Stranger {
 public:
  explicit Stranger(Cluster& cluster)
      : cluster_(cluster),
        port_(cluster.network.attach(kClient)),
        rpc_(cluster.context.get_executor(), cluster.clock, random_, *port_) {}
  template <class T>
  Result<Payload> ask(Party server, const T& message) {
    return cluster_.run(
        rpc_.call(server, T::kType, encode(message), std::chrono::seconds(60), kOpening));
  }

 private:
  Cluster& cluster_;
  Prg random_{Seed{}, as_bytes("stranger")};
  std::unique_ptr<Transport> port_;
  Rpc rpc_;
};

}  // namespace s3oram::test
