#include "oramcore/client/seal.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

namespace s3oram {
namespace {

constexpr std::size_t kNumberSize = 8, kVersionSize = 8;
constexpr std::size_t kAad = kNumberSize + kVersionSize;
constexpr std::size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::size_t kPrefix = kAad + kNonce;
static_assert(kPrefix + kTag <= VolumeParams::kSealOverhead);

}  // namespace

Sealer::Sealer(const Seed& key, Random& random) : key_(key) { random.fill(prefix_); }
Sealer::~Sealer() { sodium_memzero(key_.data(), key_.size()); }

Bytes Sealer::seal(std::uint64_t block, std::uint64_t version, View content) {
  Bytes slot(content.size() + VolumeParams::kSealOverhead);
  std::memcpy(slot.data(), &block, kNumberSize);
  std::memcpy(slot.data() + kNumberSize, &version, kVersionSize);
  std::memcpy(slot.data() + kAad, prefix_.data(), prefix_.size());
  std::memcpy(slot.data() + kAad + prefix_.size(), &++sealings_, sizeof sealings_);
  crypto_aead_xchacha20poly1305_ietf_encrypt(slot.data() + kPrefix, nullptr, content.data(),
                                             content.size(), slot.data(), kAad, nullptr,
                                             slot.data() + kAad, key_.data());
  return slot;
}

Result<OpenedBlock> Sealer::open(View slot) const {
  OpenedBlock opened;
  if (slot.size() < VolumeParams::kSealOverhead) return fail(Errc::corrupt, "the slot is short");
  opened.content.resize(slot.size() - VolumeParams::kSealOverhead);
  if (crypto_aead_xchacha20poly1305_ietf_decrypt(
          opened.content.data(), nullptr, nullptr, slot.data() + kPrefix,
          opened.content.size() + kTag, slot.data(), kAad, slot.data() + kAad, key_.data()) != 0)
    return fail(Errc::corrupt, "the answers do not combine to a sealed block");
  const View padding = slot.subspan(kPrefix + opened.content.size() + kTag);
  if (std::any_of(padding.begin(), padding.end(), [](std::uint8_t byte) { return byte != 0; }))
    return fail(Errc::corrupt, "the slot has something behind its sealed block");
  std::memcpy(&opened.block, slot.data(), kNumberSize);
  std::memcpy(&opened.version, slot.data() + kNumberSize, kVersionSize);
  return opened;
}

}  // namespace s3oram
