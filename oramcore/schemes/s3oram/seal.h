// Seals a block into the content of a slot, before the slot is shared: XChaCha20-Poly1305 over the
// block, bound to the label beside it (protocol/label.h):
//
//   number (8) | version (8) | nonce (24) | ciphertext (block) | tag (16) | leaf and marks (8)
//
// Older versions bound the block only to number and version, so the last word of such a block may
// have been altered. But a server can only add a constant to it, without knowing the leaf, and a
// uniformly random leaf stays uniformly random. A rebuild, which reads labels without opening the
// blocks (rebuild.h), checks that the leaf lies below the slot's bucket.
#pragma once

#include <cstdint>

#include "oramcore/base/error.h"
#include "oramcore/base/random.h"
#include "oramcore/client/client_scheme.h"
#include "oramcore/protocol/label.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

/// Not thread-safe.
class Sealer {
 public:
  /// Draws 16 random bytes. Together with a counter of sealings they form nonces that never repeat,
  /// not even in a restored or cloned vault.
  Sealer(const Seed& key, Random& random);
  ~Sealer();

  /// Returns a slot of content.size() + VolumeParams::kSealOverhead bytes.
  Bytes seal(const Label& label, ByteSpan content);
  /// Opens a slot. Errors: corrupt.
  Result<OpenedBlock> open(ByteSpan slot) const;

 private:
  Seed key_;
  std::array<std::uint8_t, 16> prefix_;
  std::uint64_t sealings_ = 0;
};

}  // namespace s3oram
