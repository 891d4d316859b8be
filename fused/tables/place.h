// Where a piece of a file lies: in a block of its own, or behind others in a pack (packs.h). Both
// are one number, that of the block or of a place in it, as extents have it.
#pragma once

#include <cstdint>

#include "oramcore/oram/block_device.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

inline constexpr unsigned kOffsetBits = 22;
static_assert(kMostBlockSize <= 1U << kOffsetBits);
inline constexpr BlockId kPackedPlace = BlockId{1} << 62;

/// `offset` bytes into a pack.
constexpr BlockId packed_place(BlockId block, std::uint32_t offset) {
  return kPackedPlace | block << kOffsetBits | offset;
}
constexpr bool is_packed(BlockId place) { return place >> 62 == 1; }
/// The device's block.
constexpr BlockId block_of(BlockId place) {
  return is_packed(place) ? (place & (kPackedPlace - 1)) >> kOffsetBits : place;
}
constexpr std::uint32_t offset_of(BlockId place) {
  return is_packed(place) ? static_cast<std::uint32_t>(place & ((1U << kOffsetBits) - 1)) : 0;
}

}  // namespace s3oram
