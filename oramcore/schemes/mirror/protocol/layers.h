// Layers: what an eviction does to a slot of mirror. Each of the workers masks the row, and the
// row's header says which attempt and which place the masks are of, so that the client can take
// them off again, one layer after the other (docs/protocol-mirror.md).
//
//   header (kLayers entries of 16 bytes: attempt 14, place 2) | a sealed block (opaque_sealer.h)
//
// Entry 0 is in the clear and of the newest layer; each older one lies under the masks of the newer
// ones. An attempt of zeros ends the list: a slot that was just written has a header of zeros.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "oramcore/base/random.h"
#include "oramcore/oram/opaque_sealer.h"
#include "oramcore/protocol/params.h"

struct evp_cipher_ctx_st;  // OpenSSL's

namespace s3oram::mirror {

constexpr unsigned kLayers = VolumeParams::kMirrorLayers;
constexpr std::size_t kEntry = 16, kHeader = kLayers * kEntry;
static_assert(kHeader + OpaqueSealer::kOverhead == VolumeParams::kMirrorOverhead);
/// Of a slot: what its label is read from.
constexpr std::size_t kHead = kHeader + OpaqueSealer::kHead;

/// Names a try of an eviction for good: random, and never zeros.
using LayerAttempt = std::array<std::uint8_t, 14>;
/// Of the attempt's longer name, the part that a header has room for.
LayerAttempt layer_attempt(ByteSpan attempt);

/// An entry of a header: the masks that lie on what is behind it.
struct Entry {
  LayerAttempt attempt{};
  std::uint16_t place = 0;
};
/// Entry 0 of a slot.
Entry newest_entry(ByteSpan slot);

/// Writes entry 0 of a row that an eviction has just made. `row` has kEntry bytes or more.
void put_entry(const LayerAttempt& attempt, std::uint16_t place, MutableByteSpan row);

/// The masks of one worker in one attempt: for each place a stream as long as a slot, of which any
/// part can be made alone. Not thread-safe.
class Mask {
 public:
  explicit Mask(const Seed& key);
  ~Mask();
  Mask(const Mask&) = delete;
  Mask& operator=(const Mask&) = delete;
  /// row ^= the stream of `place` from byte `begin` on, a multiple of 64.
  void add(std::uint16_t place, std::size_t begin, MutableByteSpan row);

 private:
  struct FreeCipher {
    void operator()(evp_cipher_ctx_st* cipher) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, FreeCipher> cipher_;
};

/// The keys of all masks, from the vault's sealing key: who has that can always peel.
class LayerKeys {
 public:
  explicit LayerKeys(const Seed& sealing_key);
  ~LayerKeys();
  LayerKeys(const LayerKeys&) = delete;
  LayerKeys& operator=(const LayerKeys&) = delete;

  /// Of the worker with this role, from 1 on.
  Seed of(unsigned role, const LayerAttempt& attempt) const;
  /// Takes all layers off a slot, or off its first bytes, kHeader at least, and returns whether
  /// nothing else was in its header. A server that changes a header must not see by what a read
  /// does how many layers the block has, so what this returns counts as much as the seal of the
  /// block. A slot with more layers than fit into a header makes no sense. Takes the same time
  /// however many layers there are. Any thread.
  bool peel(MutableByteSpan slot, unsigned workers) const;

 private:
  Seed key_;
};

}  // namespace s3oram::mirror
