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

void Mask::rekey(const Seed& key) {
  if (EVP_EncryptInit_ex(cipher_.get(), nullptr, nullptr, key.data(), nullptr) != 1) std::abort();
}

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

bool LayerKeys::peel(MutableByteSpan slot, unsigned workers) const {
  const Peeling peeling(*this, slot, workers);
  peeling.peel_part(0, 1);
  return peeling.is_sound();
}

Peeling::Peeling(const LayerKeys& keys, MutableByteSpan slot, unsigned workers, unsigned drawn)
    : slot_(slot) {
  assert(slot.size() >= kHeader && drawn <= kLayers);
  streams_.reserve(std::size_t{drawn} * workers);
  const MutableByteSpan header = slot.first(kHeader);
  Bytes unused(kHeader);
  Mask mask{Seed{}};
  bool ended = false;
  unsigned layers = 0;
  for (unsigned layer = 0; layer < drawn; ++layer) {
    ended |= newest_entry(header).attempt == LayerAttempt{};
    layers += !ended;
    remove_entry(ended ? MutableByteSpan(unused) : header, mask, workers, keys, !ended);
  }
  // Each layer that was removed moved the entries of the slot itself one place to the front. The
  // entries behind them were moved in as zeros, and may have been masked since.
  std::uint8_t rest = 0;
  for (unsigned i = 0; i < kHeader; ++i)
    rest |= static_cast<std::uint8_t>(header[i] * (i / kEntry < kLayers - layers));
  sound_ = rest == 0;
}

Peeling::~Peeling() {
  for (Stream& stream : streams_) sodium_memzero(stream.key.data(), stream.key.size());
}

void Peeling::remove_entry(MutableByteSpan header, Mask& mask, unsigned workers,
                           const LayerKeys& keys, bool exists) {
  const Entry entry = newest_entry(header);
  for (unsigned role = 1; role <= workers; ++role) {
    streams_.push_back({keys.of(role, entry.attempt), entry.place, exists});
    mask.rekey(streams_.back().key);
    mask.add(entry.place, 0, header);
  }
  std::memmove(header.data(), header.data() + kEntry, kHeader - kEntry);
  std::fill_n(header.data() + kHeader - kEntry, kEntry, std::uint8_t{0});
}

void Peeling::peel_part(std::size_t nth, std::size_t parts) const {
  const std::size_t blocks = (slot_.size() - kHeader + kChachaBlock - 1) / kChachaBlock;
  const std::size_t begin = kHeader + blocks * nth / parts * kChachaBlock;
  const std::size_t end =
      std::min(slot_.size(), kHeader + blocks * (nth + 1) / parts * kChachaBlock);
  const MutableByteSpan part = slot_.subspan(begin, end - begin);
  Bytes unused(part.size());
  Mask mask{Seed{}};
  for (const Stream& stream : streams_) {
    mask.rekey(stream.key);
    mask.add(stream.place, begin, stream.exists ? part : MutableByteSpan(unused));
  }
}

}  // namespace s3oram::mirror
