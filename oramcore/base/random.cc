// The system's generator, and ChaCha20 streams from seeds (OpenSSL).
#include "oramcore/base/random.h"

#include <openssl/evp.h>
#include <sodium.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace s3oram {
namespace {

// libsodium selects its fast implementations in sodium_init(), and only there.
[[maybe_unused]] const bool kSodiumReady = [] {
  if (sodium_init() < 0) std::abort();
  return true;
}();

constexpr std::size_t kChachaBlock = 64;

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

void SystemRandom::fill(MutableByteSpan out) { randombytes_buf(out.data(), out.size()); }

void Prg::FreeCipher::operator()(evp_cipher_ctx_st* cipher) const { EVP_CIPHER_CTX_free(cipher); }

Prg::Prg(const Seed& seed, ByteSpan context) : cipher_(EVP_CIPHER_CTX_new()) {
  Seed key;
  crypto_generichash(key.data(), key.size(), context.data(), context.size(), seed.data(),
                     seed.size());
  static constexpr std::uint8_t kCounterAndNonce[16] = {};
  if (!cipher_ ||
      EVP_EncryptInit_ex(cipher_.get(), EVP_chacha20(), nullptr, key.data(), kCounterAndNonce) != 1)
    std::abort();  // out of memory
  sodium_memzero(key.data(), key.size());
}

Prg::~Prg() { sodium_memzero(buffer_.data(), buffer_.size()); }

void Prg::fill(MutableByteSpan out) {
  if (out.empty()) return;  // its data() may be null, which must not be passed to memset
  std::memset(out.data(), 0, out.size());
  add_to(out);
}

void Prg::add_to(MutableByteSpan out) {
  const auto keystream = [this](MutableByteSpan to) {
    for (constexpr std::size_t kMost = 1 << 30; !to.empty();) {
      int made = 0;
      const auto size = static_cast<int>(std::min(to.size(), kMost));
      if (EVP_EncryptUpdate(cipher_.get(), to.data(), &made, to.data(), size) != 1) std::abort();
      to = to.subspan(static_cast<std::size_t>(made));
    }
  };
  const auto from_buffer = [this](MutableByteSpan to) {
    for (std::uint8_t& byte : to) byte ^= buffer_[used_++];
  };
  const std::size_t held = std::min(out.size(), buffer_.size() - used_);
  from_buffer(out.first(held));
  out = out.subspan(held);
  const std::size_t whole = out.size() / kChachaBlock * kChachaBlock;
  keystream(out.first(whole));
  out = out.subspan(whole);
  if (out.empty()) return;
  buffer_.fill(0);
  keystream(buffer_);
  used_ = 0;
  from_buffer(out);
}

}  // namespace s3oram
