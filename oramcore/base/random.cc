#include "oramcore/base/random.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

namespace s3oram {
namespace {

constexpr std::size_t kChachaBlock = 64;

// Keystream from 64-byte block number `block` on; `out` is a whole number of blocks but at its end.
void keystream(const Seed& key, std::uint64_t block, MutView out) {
  static constexpr std::uint8_t kNonce[crypto_stream_chacha20_NONCEBYTES] = {};
  std::memset(out.data(), 0, out.size());
  crypto_stream_chacha20_xor_ic(out.data(), out.data(), out.size(), kNonce, block, key.data());
}

}  // namespace

std::uint64_t Random::u64() {
  std::uint64_t value = 0;
  fill({reinterpret_cast<std::uint8_t*>(&value), sizeof value});
  return value;
}

Seed Random::seed() {
  Seed seed;
  fill(seed);
  return seed;
}

void SystemRandom::fill(MutView out) { randombytes_buf(out.data(), out.size()); }

Prg::Prg(const Seed& seed, View context) {
  crypto_generichash(key_.data(), key_.size(), context.data(), context.size(), seed.data(),
                     seed.size());
}

Prg::~Prg() {
  sodium_memzero(key_.data(), key_.size());
  sodium_memzero(buffer_.data(), buffer_.size());
}

void Prg::fill(MutView out) {
  if (out.empty()) return;  // its data() may be null
  const std::size_t held = std::min(out.size(), buffer_.size() - used_);
  std::memcpy(out.data(), buffer_.data() + used_, held);
  used_ += held;
  out = out.subspan(held);
  const std::size_t whole = out.size() / kChachaBlock * kChachaBlock;
  if (whole > 0) {
    keystream(key_, block_, out.first(whole));
    block_ += whole / kChachaBlock;
    out = out.subspan(whole);
  }
  if (out.empty()) return;
  keystream(key_, block_, buffer_);
  block_ += buffer_.size() / kChachaBlock;
  std::memcpy(out.data(), buffer_.data(), out.size());
  used_ = out.size();
}

}  // namespace s3oram
