// Seals blocks for servers that store exactly the bytes they are given, all of them the same bytes.
// Every byte of a sealed block looks random, so nothing distinguishes blocks that were written,
// rewritten or never used.
//
//   nonce (24) | ciphertext (label, 24) | tag (16) | ciphertext (block) | tag (16)
//
// Uses XChaCha20-Poly1305 twice under one nonce, with one key for labels and another for blocks;
// the block has its label as associated data. The first kHead bytes open alone, so labels can be
// read without their blocks.
#pragma once

#include <array>
#include <cstdint>

#include "oramcore/base/error.h"
#include "oramcore/base/random.h"

namespace s3oram {

/// Not thread-safe, except that open() and open_label() may run on several threads concurrently.
class OpaqueSealer {
 public:
  /// A block's label, encoded by its scheme.
  using SealedLabel = std::array<std::uint8_t, 24>;
  /// Bytes beside the block, and those of them in front that hold the label.
  static constexpr std::size_t kOverhead = 80, kHead = 64;

  /// `random` supplies a nonce for each block, which must be uniformly random, because a counter
  /// would be visible.
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
  /// Opens label and block. Errors: corrupt.
  Result<Opened> open(ByteSpan sealed) const;
  /// Opens only the label; `head` holds at least the first kHead bytes. Errors: corrupt.
  Result<SealedLabel> open_label(ByteSpan head) const;

 private:
  Seed of_labels_, of_blocks_;
  Random& random_;
};

}  // namespace s3oram
