// Sealing: what a slot holds before it is shared. XChaCha20-Poly1305 over the block, bound to its
// label (tree/label.h), which lies beside it:
//
//   number (8) | version (8) | nonce (24) | ciphertext (block) | tag (16) | leaf and marks (8)
//
// Older versions bound it to number and version alone: of such a block the last word says nothing
// for certain. All that a server can do to that is to add a constant, which it chooses without
// knowing the leaf: what was uniformly random is so still. Whoever reads labels without opening the
// blocks (rebuild.h) checks that the leaf lies below the bucket in which the slot is.
#pragma once

#include <cstdint>

#include "oramcore/base/error.h"
#include "oramcore/base/random.h"
#include "oramcore/client/scheme.h"
#include "oramcore/protocol/label.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

/// Not thread-safe.
class Sealer {
 public:
  /// Draws 16 random bytes; with a counter of sealings they make nonces that never repeat, not
  /// even in a restored or cloned vault.
  Sealer(const Seed& key, Random& random);
  ~Sealer();

  /// A slot: content.size() + VolumeParams::kSealOverhead bytes.
  Bytes seal(const Label& label, ByteSpan content);
  /// Errors: corrupt.
  Result<OpenedBlock> open(ByteSpan slot) const;

 private:
  Seed key_;
  std::array<std::uint8_t, 16> prefix_;
  std::uint64_t sealings_ = 0;
};

}  // namespace s3oram
