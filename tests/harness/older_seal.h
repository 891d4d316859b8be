// Sealed blocks as older versions left them.
#pragma once

#include <sodium.h>

#include "oramcore/base/random.h"

namespace s3oram::test {

/// Has a sealed slot bound to its number and version alone, not to its last word: so it was up to
/// format 3 of vault.db. `content`: of its block.
inline void bind_as_format_3(const Seed& key, ByteSpan content, Bytes& slot) {
  constexpr std::size_t kNonceAt = 16, kBoxAt = 40;
  crypto_aead_xchacha20poly1305_ietf_encrypt(&slot[kBoxAt], nullptr, content.data(), content.size(),
                                             slot.data(), kNonceAt, nullptr, &slot[kNonceAt],
                                             key.data());
}

}  // namespace s3oram::test
