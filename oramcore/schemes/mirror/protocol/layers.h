// Layers: what an eviction adds to a slot of mirror. Each of the workers masks the row, and the
// row's header says from which attempt and which place the masks come. With that the client can
// remove them again, one layer after another (docs/protocol-mirror.md).
//
//   header (kLayers entries of 16 bytes: attempt 14, place 2) | a sealed block (opaque_sealer.h)
//
// Entry 0 is in the clear and describes the newest layer; each older entry lies under the masks of
// the newer layers. An attempt of zeros ends the list: a slot that was just written has a header of
// zeros.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "oramcore/base/random.h"
#include "oramcore/oram/opaque_sealer.h"
#include "oramcore/protocol/params.h"

struct evp_cipher_ctx_st;  // OpenSSL's

namespace s3oram::mirror {

constexpr unsigned kLayers = VolumeParams::kMirrorLayers;
constexpr std::size_t kEntry = 16, kHeader = kLayers * kEntry;
static_assert(kHeader + OpaqueSealer::kOverhead == VolumeParams::kMirrorOverhead);
/// The bytes of a slot from which its label is read.
constexpr std::size_t kHead = kHeader + OpaqueSealer::kHead;

/// Identifies an attempt at an eviction permanently: random, and never zeros.
using LayerAttempt = std::array<std::uint8_t, 14>;
/// Returns the part of the attempt's longer name for which a header has room.
LayerAttempt layer_attempt(ByteSpan attempt);

/// An entry of a header: the masks that lie on everything behind it.
struct Entry {
  LayerAttempt attempt{};
  std::uint16_t place = 0;
};
/// Returns entry 0 of a slot.
Entry newest_entry(ByteSpan slot);

/// Writes entry 0 of a row that an eviction has just made. `row` has at least kEntry bytes.
void put_entry(const LayerAttempt& attempt, std::uint16_t place, MutableByteSpan row);

/// The masks of one worker in one attempt: a stream as long as a slot for each place. Any part of a
/// stream can be computed alone. Not thread-safe.
class Mask {
 public:
  explicit Mask(const Seed& key);
  ~Mask();
  Mask(const Mask&) = delete;
  Mask& operator=(const Mask&) = delete;
  /// Becomes the masks of another worker or attempt. Costs less than a new Mask.
  void rekey(const Seed& key);
  /// Computes row ^= the stream of `place` from byte `begin` on, which must be a multiple of 64.
  void add(std::uint16_t place, std::size_t begin, MutableByteSpan row);

 private:
  struct FreeCipher {
    void operator()(evp_cipher_ctx_st* cipher) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, FreeCipher> cipher_;
};

/// The keys of all masks, derived from the vault's sealing key, which is therefore enough to peel.
class LayerKeys {
 public:
  explicit LayerKeys(const Seed& sealing_key);
  ~LayerKeys();
  LayerKeys(const LayerKeys&) = delete;
  LayerKeys& operator=(const LayerKeys&) = delete;

  /// Returns the key of the worker with this role, from 1 on.
  Seed of(unsigned role, const LayerAttempt& attempt) const;
  /// Removes all layers from a slot, or from its first bytes, kHeader at least: see Peeling. Takes
  /// the same time for any number of layers. Any thread.
  bool peel(MutableByteSpan slot, unsigned workers) const;

 private:
  Seed key_;
};

/// Removes all layers from a slot, in two steps: from the header, because it says which layers
/// there are, and then from the rest, in parts that several threads can take. Takes the same time
/// whatever the slot holds: a layer that does not exist costs as much as one that does, on bytes
/// that are not used. A slot with more layers than `drawn`, or than fit into a header, is not
/// sound.
class Peeling {
 public:
  /// Peels the header. `slot` must outlive the object.
  Peeling(const LayerKeys& keys, MutableByteSpan slot, unsigned workers, unsigned drawn = kLayers);
  ~Peeling();
  Peeling(const Peeling&) = delete;
  Peeling& operator=(const Peeling&) = delete;

  /// Peels part `nth` of `parts` of what follows the header. Any thread, each part once.
  void peel_part(std::size_t nth, std::size_t parts) const;
  /// Returns whether the header held nothing but its layers. A server that changes a header must
  /// not learn from the result of a read how many layers the block has, so this counts as much as
  /// the seal of the block.
  bool is_sound() const { return sound_; }
  /// Returns how many streams each byte costs.
  std::size_t streams() const { return streams_.size(); }

 private:
  struct Stream {
    Seed key;
    std::uint16_t place;
    bool exists;
  };
  void remove_entry(MutableByteSpan header, Mask& mask, unsigned workers, const LayerKeys& keys,
                    bool exists);

  const MutableByteSpan slot_;
  std::vector<Stream> streams_;
  bool sound_ = false;
};

}  // namespace s3oram::mirror
