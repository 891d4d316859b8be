// The place of a piece of a file: a block of its own, or a part of a pack (packs.h). Extents store
// either as one number: the number of the block, or a place in a pack.
#pragma once

#include <cstdint>

#include "oramcore/oram/block_device.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

inline constexpr unsigned kOffsetBits = 22;
static_assert(kMostBlockSize <= 1U << kOffsetBits);
inline constexpr BlockId kPackedPlace = BlockId{1} << 62;

/// Returns the place `offset` bytes into the pack `block`.
constexpr BlockId packed_place(BlockId block, std::uint32_t offset) {
  return kPackedPlace | block << kOffsetBits | offset;
}
constexpr bool is_packed(BlockId place) { return place >> 62 == 1; }
/// Returns the device's block that the place lies in.
constexpr BlockId block_of(BlockId place) {
  return is_packed(place) ? (place & (kPackedPlace - 1)) >> kOffsetBits : place;
}
constexpr std::uint32_t offset_of(BlockId place) {
  return is_packed(place) ? static_cast<std::uint32_t>(place & ((1U << kOffsetBits) - 1)) : 0;
}

}  // namespace s3oram
