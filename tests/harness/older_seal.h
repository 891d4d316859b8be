// Makes sealed blocks as older versions did.
#pragma once

#include <sodium.h>

#include "oramcore/base/random.h"

namespace s3oram::test {

/// Seals the slot of a block with this content as programs did up to format 3 of vault.db: bound
/// only to its number and version, not to its last word.
inline void bind_as_format_3(const Seed& key, ByteSpan content, Bytes& slot) {
  constexpr std::size_t kNonceAt = 16, kBoxAt = 40;
  crypto_aead_xchacha20poly1305_ietf_encrypt(&slot[kBoxAt], nullptr, content.data(), content.size(),
                                             slot.data(), kNonceAt, nullptr, &slot[kNonceAt],
                                             key.data());
}

}  // namespace s3oram::test
