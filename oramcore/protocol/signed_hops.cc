// Ed25519 signatures of hops, and receipts in bytes (signed_hops.h).
#include "oramcore/protocol/signed_hops.h"

#include <sodium.h>

#include <cstring>

namespace s3oram {
namespace {

static_assert(sizeof(Seed) == crypto_sign_SEEDBYTES && sizeof(Seed) == crypto_sign_PUBLICKEYBYTES);
static_assert(sizeof(HopSignature) == crypto_sign_BYTES);

struct SigningKeys {
  explicit SigningKeys(const Seed& seed) {
    crypto_sign_seed_keypair(verifying.data(), secret.data(), seed.data());
  }
  ~SigningKeys() { sodium_memzero(secret.data(), secret.size()); }
  SigningKeys(const SigningKeys&) = delete;
  SigningKeys& operator=(const SigningKeys&) = delete;
  Seed verifying{};
  std::array<std::uint8_t, crypto_sign_SECRETKEYBYTES> secret{};
};

}  // namespace

std::optional<SignedShuffleOrders> decode_any_shuffle_orders(ByteSpan orders) {
  if (auto with_keys = decode<SignedShuffleOrders>(orders)) {
    if (!with_keys->checked() || !with_keys->sign) return std::nullopt;
    return with_keys;
  }
  if (auto others = decode_shuffle_orders(orders)) return SignedShuffleOrders{std::move(*others)};
  return std::nullopt;
}

Seed verifying_key(const Seed& secret) { return SigningKeys(secret).verifying; }

Digest hop_hash(const ShuffleHop& hop, std::uint32_t tile, ByteSpan content) {
  Writer context;
  context(as_bytes("hop"), static_cast<std::uint8_t>(hop.from), static_cast<std::uint8_t>(hop.to),
          hop.step, tile);
  const Bytes bound = context.take();
  Digest hash;
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, hash.size());
  crypto_generichash_update(&state, bound.data(), bound.size());
  crypto_generichash_update(&state, content.data(), content.size());
  crypto_generichash_final(&state, hash.data(), hash.size());
  return hash;
}

HopSignature sign_hop(const Seed& secret, const Digest& hash) {
  const SigningKeys keys(secret);
  HopSignature signature;
  crypto_sign_detached(signature.data(), nullptr, hash.data(), hash.size(), keys.secret.data());
  return signature;
}

bool is_signed(const Seed& verifying_key, const Digest& hash, const HopSignature& signature) {
  return crypto_sign_verify_detached(signature.data(), hash.data(), hash.size(),
                                     verifying_key.data()) == 0;
}

Bytes pack(std::span<const HopReceipt> receipts) {
  Bytes bytes;
  for (const HopReceipt& receipt : receipts) {
    bytes.insert(bytes.end(), receipt.hash.begin(), receipt.hash.end());
    bytes.insert(bytes.end(), receipt.signature.begin(), receipt.signature.end());
  }
  return bytes;
}

std::optional<std::vector<HopReceipt>> unpack_receipts(ByteSpan bytes, std::size_t count) {
  if (bytes.size() != count * HopReceipt::kSize) return std::nullopt;
  std::vector<HopReceipt> receipts(count);
  for (HopReceipt& receipt : receipts) {
    std::memcpy(receipt.hash.data(), bytes.data(), receipt.hash.size());
    std::memcpy(receipt.signature.data(), bytes.data() + receipt.hash.size(),
                receipt.signature.size());
    bytes = bytes.subspan(HopReceipt::kSize);
  }
  return receipts;
}

}  // namespace s3oram
