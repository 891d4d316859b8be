// The part of ZeroMQ's protocol that the gate needs to check a connection before ZeroMQ does: ZMTP
// 3 (RFC 23) with the mechanism CURVE (RFC 26).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "oramcore/base/bytes.h"

namespace s3oram::zmtp {

/// Each side begins with a greeting: signature 10, version 2, mechanism 20, blank 32.
inline constexpr std::size_t kGreeting = 64;
using Greeting = std::array<std::uint8_t, kGreeting>;

/// The greeting of a CURVE server, as libzmq sends it.
constexpr Greeting curve_greeting() {
  Greeting greeting{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1, 'C', 'U', 'R', 'V', 'E'};
  return greeting;
}

constexpr bool speaks_curve(const Greeting& greeting) {
  constexpr std::size_t kVersion = 10, kMechanism = 12, kBlank = 32;
  constexpr Greeting ours = curve_greeting();
  return greeting[0] == 0xff && (greeting[9] & 1) != 0 && greeting[kVersion] >= 3 &&
         std::equal(ours.begin() + kMechanism, ours.begin() + kBlank,
                    greeting.begin() + kMechanism);
}

/// Frames: flags 1, followed by the size of the body in 1 byte, or in 8 if it is long, big-endian.
enum Flag : std::uint8_t { kMore = 1, kLong = 2, kCommand = 4 };
inline constexpr std::size_t kLongestHeader = 9;
constexpr std::size_t header_size(std::uint8_t flags) { return flags & kLong ? kLongestHeader : 2; }
/// Returns the size of the body that a whole header announces.
constexpr std::uint64_t body_size(ByteSpan header) {
  std::uint64_t size = 0;
  for (std::size_t at = 1; at < header_size(header[0]); ++at) size = size << 8 | header[at];
  return size;
}

/// The client's first command: "\x05HELLO", version 2, padding 72, the client's key for this
/// connection 32, the end of a nonce 8, and 64 zeros boxed for the server's key 80.
inline constexpr std::size_t kHello = 200, kHelloKey = 80, kHelloNonce = 112, kHelloBox = 120;
/// Longer than any command of a handshake.
inline constexpr std::size_t kLongestCommand = 1024;

/// Follows the frames in a stream of bytes.
class FrameWatch {
 public:
  /// Processes the next bytes. Returns false if a frame of more than `largest` bytes begins in
  /// them.
  bool take(ByteSpan bytes, std::uint64_t largest) {
    while (!bytes.empty()) {
      if (left_ > 0) {
        const auto skipped = std::min<std::uint64_t>(left_, bytes.size());
        left_ -= skipped;
        bytes = bytes.subspan(static_cast<std::size_t>(skipped));
        continue;
      }
      header_[have_++] = bytes.front();
      bytes = bytes.subspan(1);
      if (have_ < header_size(header_[0])) continue;
      have_ = 0;
      left_ = body_size(header_);
      if (left_ > largest) return false;
    }
    return true;
  }

 private:
  std::array<std::uint8_t, kLongestHeader> header_{};
  std::size_t have_ = 0;    // bytes of the header seen so far
  std::uint64_t left_ = 0;  // bytes of the body still to come
};

}  // namespace s3oram::zmtp
