// Sealing: what a slot holds before it is shared. XChaCha20-Poly1305 over the block, bound to the
// block's number and version, which lie beside it in the clear (in the clear for someone who has
// t + 1 shares: the client), so that a scan of all slots can rebuild the position map.
//
//   number (8) | version (8) | nonce (24) | ciphertext (block) | tag (16) | zero (8)
#pragma once

#include <cstdint>

#include "oramcore/base/error.h"
#include "oramcore/base/random.h"
#include "oramcore/tree/volume.h"

namespace s3oram {

/// The number in a slot that holds no block.
constexpr std::uint64_t kNoBlock = ~std::uint64_t{0};

struct OpenedBlock {
  std::uint64_t block = kNoBlock;
  std::uint64_t version = 0;
  Bytes content;
};

/// Not thread-safe.
class Sealer {
 public:
  /// Draws 16 random bytes; with a counter of sealings they make nonces that never repeat, not
  /// even in a restored or cloned vault.
  Sealer(const Seed& key, Random& random);
  ~Sealer();

  /// A slot: content.size() + VolumeParams::kSealOverhead bytes.
  Bytes seal(std::uint64_t block, std::uint64_t version, View content);
  /// Errors: corrupt.
  Result<OpenedBlock> open(View slot) const;

 private:
  Seed key_;
  std::array<std::uint8_t, 16> prefix_;
  std::uint64_t sealings_ = 0;
};

}  // namespace s3oram
