// Sealing for servers that keep what they are given as it is, all of them the same bytes: every
// byte of a sealed block looks random, so that blocks that were written, rewritten or never used
// are told apart by nothing.
//
//   nonce (24) | ciphertext (label, 24) | tag (16) | ciphertext (block) | tag (16)
//
// XChaCha20-Poly1305, twice under one nonce, with a key for labels and a key for blocks; the block
// has its label as associated data. The first kHead bytes open alone, so labels are read without
// their blocks.
#pragma once

#include <array>
#include <cstdint>

#include "oramcore/base/error.h"
#include "oramcore/base/random.h"

namespace s3oram {

/// Not thread-safe, but for open() and open_label(): they may run on several threads at once.
class OpaqueSealer {
 public:
  /// What a scheme says of a block, as it writes it.
  using SealedLabel = std::array<std::uint8_t, 24>;
  /// Bytes beside the block, and those of them in front that hold the label.
  static constexpr std::size_t kOverhead = 80, kHead = 64;

  /// `random` gives a nonce for each block, uniformly random: a counter would show.
  OpaqueSealer(const Seed& key, Random& random);
  ~OpaqueSealer();
  OpaqueSealer(const OpaqueSealer&) = delete;
  OpaqueSealer& operator=(const OpaqueSealer&) = delete;

  /// Returns content.size() + kOverhead bytes.
  Bytes seal(const SealedLabel& label, ByteSpan content);

  struct Opened {
    SealedLabel label{};
    Bytes content;
  };
  /// Errors: corrupt.
  Result<Opened> open(ByteSpan sealed) const;
  /// Reads the label alone; `head` has the first kHead bytes or more. Errors: corrupt.
  Result<SealedLabel> open_label(ByteSpan head) const;

 private:
  Seed of_labels_, of_blocks_;
  Random& random_;
};

}  // namespace s3oram
