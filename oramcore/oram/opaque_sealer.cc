// Seals and opens blocks of which every byte looks random.
#include "oramcore/oram/opaque_sealer.h"

#include <sodium.h>

#include <algorithm>

namespace s3oram {
namespace {

constexpr std::size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::size_t kLabel = std::tuple_size_v<OpaqueSealer::SealedLabel>;
static_assert(OpaqueSealer::kHead == kNonce + kLabel + kTag);
static_assert(OpaqueSealer::kOverhead == OpaqueSealer::kHead + kTag);

Seed derived(const Seed& key, std::string_view purpose) {
  Seed seed;
  crypto_generichash(seed.data(), seed.size(), as_bytes(purpose).data(), purpose.size(), key.data(),
                     key.size());
  return seed;
}

}  // namespace

OpaqueSealer::OpaqueSealer(const Seed& key, Random& random)
    : of_labels_(derived(key, "s3oramfs: sealed labels")),
      of_blocks_(derived(key, "s3oramfs: sealed blocks")),
      random_(random) {}

OpaqueSealer::~OpaqueSealer() {
  sodium_memzero(of_labels_.data(), of_labels_.size());
  sodium_memzero(of_blocks_.data(), of_blocks_.size());
}

Bytes OpaqueSealer::seal(const SealedLabel& label, ByteSpan content) {
  Bytes sealed(content.size() + kOverhead);
  const std::uint8_t* const nonce = sealed.data();
  random_.fill(MutableByteSpan(sealed).first(kNonce));
  crypto_aead_xchacha20poly1305_ietf_encrypt(sealed.data() + kNonce, nullptr, label.data(), kLabel,
                                             nullptr, 0, nullptr, nonce, of_labels_.data());
  crypto_aead_xchacha20poly1305_ietf_encrypt(sealed.data() + kHead, nullptr, content.data(),
                                             content.size(), label.data(), kLabel, nullptr, nonce,
                                             of_blocks_.data());
  return sealed;
}

Result<OpaqueSealer::SealedLabel> OpaqueSealer::open_label(ByteSpan head) const {
  SealedLabel label;
  if (head.size() < kHead || crypto_aead_xchacha20poly1305_ietf_decrypt(
                                 label.data(), nullptr, nullptr, head.data() + kNonce,
                                 kLabel + kTag, nullptr, 0, head.data(), of_labels_.data()) != 0)
    return fail(Errc::corrupt, "the label does not open");
  return label;
}

Result<OpaqueSealer::Opened> OpaqueSealer::open(ByteSpan sealed) const {
  Opened opened;
  if (sealed.size() < kOverhead) return fail(Errc::corrupt, "the slot is too short");
  opened.content.resize(sealed.size() - kOverhead);
  auto label = open_label(sealed);
  // A wrong label must take as long as a wrong block, so the block is tried in either case.
  opened.label = label.value_or(SealedLabel{});
  const bool opens = crypto_aead_xchacha20poly1305_ietf_decrypt(
                         opened.content.data(), nullptr, nullptr, sealed.data() + kHead,
                         opened.content.size() + kTag, opened.label.data(), kLabel, sealed.data(),
                         of_blocks_.data()) == 0;
  if (!label || !opens)
    return fail(Errc::corrupt, "the answers do not combine into a sealed block");
  return opened;
}

}  // namespace s3oram
