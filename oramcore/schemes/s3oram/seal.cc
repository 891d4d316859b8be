// Seals and opens blocks with libsodium's XChaCha20-Poly1305.
#include "oramcore/schemes/s3oram/seal.h"

#include <sodium.h>

#include <cstring>

namespace s3oram {
namespace {

constexpr std::size_t kNumberSize = 8, kVersionSize = 8;
constexpr std::size_t kNonceAt = kNumberSize + kVersionSize;
constexpr std::size_t kNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::size_t kPrefix = kNonceAt + kNonce;
static_assert(kNonceAt == kLabelFront);
static_assert(kPrefix + kTag + kLabelBack == VolumeParams::kSealOverhead);

}  // namespace

Sealer::Sealer(const Seed& key, Random& random) : key_(key) { random.fill(prefix_); }
Sealer::~Sealer() { sodium_memzero(key_.data(), key_.size()); }

Bytes Sealer::seal(const Label& label, ByteSpan content) {
  Bytes slot(content.size() + VolumeParams::kSealOverhead);
  std::memcpy(slot.data(), &label.block, kNumberSize);
  std::memcpy(slot.data() + kNumberSize, &label.version, kVersionSize);
  std::memcpy(slot.data() + kNonceAt, prefix_.data(), prefix_.size());
  std::memcpy(slot.data() + kNonceAt + prefix_.size(), &++sealings_, sizeof sealings_);
  const std::uint64_t back = label_back(label);
  std::memcpy(slot.data() + slot.size() - kLabelBack, &back, kLabelBack);
  const LabelBytes bound = label_bytes(slot);
  crypto_aead_xchacha20poly1305_ietf_encrypt(slot.data() + kPrefix, nullptr, content.data(),
                                             content.size(), bound.data(), bound.size(), nullptr,
                                             slot.data() + kNonceAt, key_.data());
  return slot;
}

Result<OpenedBlock> Sealer::open(ByteSpan slot) const {
  OpenedBlock opened;
  if (slot.size() < VolumeParams::kSealOverhead)
    return fail(Errc::corrupt, "the slot is too short");
  opened.content.resize(slot.size() - VolumeParams::kSealOverhead);
  const LabelBytes beside = label_bytes(slot);
  const auto opens_with = [&](ByteSpan bound) {
    return crypto_aead_xchacha20poly1305_ietf_decrypt(
               opened.content.data(), nullptr, nullptr, slot.data() + kPrefix,
               opened.content.size() + kTag, bound.data(), bound.size(), slot.data() + kNonceAt,
               key_.data()) == 0;
  };
  if (!opens_with(beside) && !opens_with(ByteSpan(beside).first(kLabelFront)))
    return fail(Errc::corrupt, "the answers do not combine into a sealed block");
  const auto label = read_label(beside);
  if (!label || label->root_slot)  // only a mirror's labels have a root slot
    return fail(Errc::corrupt, "the slot has something else after its sealed block");
  opened.label = *label;
  return opened;
}

}  // namespace s3oram
