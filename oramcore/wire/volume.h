// What a volume is: the numbers fixed at init that the client and every server agree on.
#pragma once

#include <array>
#include <cstdint>

#include "oramcore/sharing/shamir.h"

namespace s3oram {

using VolumeId = std::array<std::uint8_t, 16>;

struct VolumeParams {
  Scheme scheme;
  std::uint32_t block_size = 0;   // payload bytes of a block
  std::uint16_t bucket_size = 0;  // Z, slots of a bucket
  std::uint16_t evict_every = 0;  // A, accesses between two evictions
  friend bool operator==(const VolumeParams&, const VolumeParams&) = default;

  /// Bytes of a slot: a sealed block (oramcore/client/seal.h).
  std::uint32_t slot_size() const { return block_size + kSealOverhead; }
  static constexpr std::uint32_t kSealOverhead = 64;
};

}  // namespace s3oram
