// Turns the bytes that a fuzz target receives into numbers, texts and choices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "oramcore/base/bytes.h"

namespace s3oram::fuzz {

/// Takes numbers off the front of an input, and zeros once the input is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

  bool empty() const { return left_.empty(); }
  std::uint8_t byte() {
    const ByteSpan taken = bytes(1);
    return taken.empty() ? std::uint8_t{0} : taken[0];
  }
  std::uint16_t u16() {
    const auto low = byte();
    return static_cast<std::uint16_t>(low | byte() << 8);
  }
  /// Returns at most `most` bytes.
  ByteSpan bytes(std::size_t most) {
    const std::size_t count = std::min(most, left_.size());
    const ByteSpan taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  ByteSpan rest() { return bytes(left_.size()); }
  std::string text() {
    const ByteSpan taken = rest();
    return {taken.begin(), taken.end()};
  }

 private:
  ByteSpan left_;
};

/// Passes an input, as bytes or as text, to the one of `readings` that its first byte selects, if
/// it exists.
template <class Reading, std::size_t count>
void dispatch(const Reading (&readings)[count], const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::size_t which = input.byte();
  if (which >= count) return;
  if constexpr (std::is_invocable_v<Reading, ByteSpan>)
    readings[which](input.rest());
  else
    readings[which](input.text());
}

/// Ends the program, as a sanitizer would, unless `truth` holds.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace s3oram::fuzz

/// The entry point for libFuzzer and for replay.cc.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
