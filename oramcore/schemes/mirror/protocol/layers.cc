// Puts layers on slots, and removes them.
#include "oramcore/schemes/mirror/protocol/layers.h"

#include <openssl/evp.h>
#include <sodium.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace s3oram::mirror {
namespace {

constexpr std::size_t kAttempt = std::tuple_size_v<LayerAttempt>;
constexpr std::size_t kChachaBlock = 64;
static_assert(kHeader % kChachaBlock == 0);

}  // namespace

LayerAttempt layer_attempt(ByteSpan attempt) {
  LayerAttempt first;
  std::copy_n(attempt.begin(), first.size(), first.begin());
  return first;
}

Entry newest_entry(ByteSpan slot) {
  Entry entry;
  std::memcpy(entry.attempt.data(), slot.data(), kAttempt);
  std::memcpy(&entry.place, slot.data() + kAttempt, sizeof entry.place);
  return entry;
}

void put_entry(const LayerAttempt& attempt, std::uint16_t place, MutableByteSpan row) {
  std::memcpy(row.data(), attempt.data(), kAttempt);
  std::memcpy(row.data() + kAttempt, &place, sizeof place);
}

void Mask::FreeCipher::operator()(evp_cipher_ctx_st* cipher) const { EVP_CIPHER_CTX_free(cipher); }

Mask::Mask(const Seed& key) : cipher_(EVP_CIPHER_CTX_new()) {
  if (!cipher_ ||
      EVP_EncryptInit_ex(cipher_.get(), EVP_chacha20(), nullptr, key.data(), nullptr) != 1)
    std::abort();  // out of memory
}

Mask::~Mask() = default;

void Mask::add(std::uint16_t place, std::size_t begin, MutableByteSpan row) {
  assert(begin % kChachaBlock == 0);
  // The counter of blocks (4 bytes), followed by the nonce.
  std::uint8_t start[16] = {};
  const auto block = static_cast<std::uint32_t>(begin / kChachaBlock);
  std::memcpy(start, &block, sizeof block);
  std::memcpy(start + sizeof block, &place, sizeof place);
  int made = 0;
  if (EVP_EncryptInit_ex(cipher_.get(), nullptr, nullptr, nullptr, start) != 1 ||
      EVP_EncryptUpdate(cipher_.get(), row.data(), &made, row.data(),
                        static_cast<int>(row.size())) != 1)
    std::abort();
}

LayerKeys::LayerKeys(const Seed& sealing_key) {
  constexpr std::string_view kUse = "s3oramfs: layers";
  crypto_generichash(key_.data(), key_.size(), as_bytes(kUse).data(), kUse.size(),
                     sealing_key.data(), sealing_key.size());
}

LayerKeys::~LayerKeys() { sodium_memzero(key_.data(), key_.size()); }

Seed LayerKeys::of(unsigned role, const LayerAttempt& attempt) const {
  Bytes message{'l', 'a', 'y', 'e', 'r', static_cast<std::uint8_t>(role)};
  message.insert(message.end(), attempt.begin(), attempt.end());
  Seed key;
  crypto_generichash(key.data(), key.size(), message.data(), message.size(), key_.data(),
                     key_.size());
  return key;
}

// Processes the header alone first, because it says which layers there are; then applies all their
// masks together to the rest. A layer that does not exist takes the same time, on bytes that are
// not used.
bool LayerKeys::peel(MutableByteSpan slot, unsigned workers) const {
  assert(slot.size() >= kHeader);
  const MutableByteSpan header = slot.first(kHeader), body = slot.subspan(kHeader);
  Bytes unused(body.size() + kHeader);
  bool ended = false;
  unsigned layers = 0;
  for (unsigned layer = 0; layer < kLayers; ++layer) {
    const Entry entry = newest_entry(header);
    ended |= entry.attempt == LayerAttempt{};
    layers += !ended;
    const MutableByteSpan of_header = ended ? MutableByteSpan(unused).first(kHeader) : header;
    const MutableByteSpan of_body = ended ? MutableByteSpan(unused).subspan(kHeader) : body;
    for (unsigned role = 1; role <= workers; ++role) {
      Mask mask(of(role, entry.attempt));
      mask.add(entry.place, 0, of_header);
      mask.add(entry.place, kHeader, of_body);
    }
    std::memmove(of_header.data(), of_header.data() + kEntry, kHeader - kEntry);
    std::fill_n(of_header.data() + kHeader - kEntry, kEntry, std::uint8_t{0});
  }
  // Each layer that was removed moved the entries of the slot itself one place to the front. The
  // entries behind them were moved in as zeros, and may have been masked since.
  std::uint8_t rest = 0;
  for (unsigned i = 0; i < kHeader; ++i)
    rest |= static_cast<std::uint8_t>(header[i] * (i / kEntry < kLayers - layers));
  return rest == 0;
}

}  // namespace s3oram::mirror
