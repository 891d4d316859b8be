// What a server may do to the messages that it sends: one lie changes, withholds or replaces some
// of one type.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "oramcore/net/rpc.h"
#include "oramcore/protocol/messages.h"

namespace s3oram::test {

enum class LieKind {
  flip,
  cut,
  extend,
  zeros,
  noise,
  error,
  replay,  // the body of the message of this type before it
  withhold,
  twice,
  invent,  // a well-formed answer about slots that the server makes up
  count
};

/// A lie that is the same in every volume in which it is told.
struct Lie {
  static constexpr unsigned kForever = ~0u;

  MessageType type{};
  bool answer = true, to_client = true;
  LieKind kind = LieKind::flip;
  Errc code = Errc::failed;
  unsigned skip = 0, times = 1;  // messages of that type; kForever: all that follow
  double place = 0;              // place in the message's body, from 0 to 1
  std::uint8_t bits = 1;
  Party blames = 1;  // the server that an error's text calls a liar
  std::uint64_t seed = 0;

  bool persists() const { return times == kForever; }
  bool concerns(const Bytes& message, Party to) const;
};

/// How big a volume's tree and buckets are, for lies about its slots.
struct Shape {
  unsigned height = 0;
  std::uint16_t bucket_size = 0;
};

/// Draws a lie that a server of this scheme can tell.
Lie draw_lie(std::mt19937_64& random, const VolumeParams& params);
/// Returns what the server sends instead of `message`. `last` is the message of this type before.
Bytes told(const Lie& lie, const Shape& shape, const Bytes& last, Bytes message);
/// Describes lies, for a report.
std::string description_of(const std::vector<Lie>& lies);

inline MessageType type_of_message(const Bytes& message) {
  return static_cast<MessageType>(message[2]);
}

}  // namespace s3oram::test
