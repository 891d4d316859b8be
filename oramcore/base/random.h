// Randomness is passed in: the system's in production, a seeded source in tests and the simulator.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <memory>

#include "oramcore/base/bytes.h"

struct evp_cipher_ctx_st;  // OpenSSL's

namespace s3oram {

using Seed = std::array<std::uint8_t, 32>;

/// A source of uniformly random bytes. Not thread-safe: give each thread its own Prg.
class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(MutableByteSpan out) = 0;

  std::uint64_t u64();
  Seed seed();
};

/// The operating system's generator.
class SystemRandom final : public Random {
 public:
  void fill(MutableByteSpan out) override;
};

/// Bytes drawn in advance, perhaps on another thread. No more than `size` bytes may be requested.
class DrawnRandom final : public Random {
 public:
  DrawnRandom(Random& from, std::size_t size) : bytes_(size) { from.fill(bytes_); }
  void fill(MutableByteSpan out) override {
    assert(out.size() <= bytes_.size() - used_);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(used_), out.size(), out.begin());
    used_ += out.size();
  }

 private:
  Bytes bytes_;
  std::size_t used_ = 0;
};

/// ChaCha20 keystream under BLAKE2b(key = seed, message = context). The context binds a stream to
/// its single use (purpose, epoch, eviction, attempt, ...); the same (seed, context) gives the same
/// stream on every machine. The seed and the key are wiped on destruction.
class Prg final : public Random {
 public:
  Prg(const Seed& seed, ByteSpan context);
  ~Prg() override;
  Prg(const Prg&) = delete;
  Prg& operator=(const Prg&) = delete;
  void fill(MutableByteSpan out) override;
  /// Adds (XORs) to `out` the bytes that fill() would write.
  void add_to(MutableByteSpan out);

 private:
  struct FreeCipher {
    void operator()(evp_cipher_ctx_st* cipher) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, FreeCipher> cipher_;
  std::array<std::uint8_t, 512> buffer_{};
  std::size_t used_ = 512;  // bytes of buffer_ used; it is empty at first
};

}  // namespace s3oram
