// Computes the size of the largest message in messages.h and repair_messages.h.
#include "oramcore/protocol/message_bounds.h"

#include <algorithm>

#include "oramcore/net/transport.h"
#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram {
namespace {

constexpr std::size_t kTileBytes = 1 << 18;  // bytes of a tile in one message
constexpr std::size_t kTileAlign = 128;

// Room for everything other than the largest field: the header, numbers, digests, and a seed and a
// number for each of up to 127 servers.
constexpr std::size_t kOtherFields = 8192;
// Bytes per item in a list with one item for each slot of a bucket; the largest item is a
// SlotDigest.
constexpr std::size_t kSlotItem = 40;
constexpr std::size_t kDigest = 16;  // bytes of a row's digest (hop_check.h)

/// Returns the bytes per slot in such a list; in a mirror this includes a SlotHead.
std::size_t slot_item(const VolumeParams& params) {
  return kSlotItem + (params.is_mirror() ? VolumeParams::kMirrorOverhead : 0);
}

}  // namespace

std::size_t tile_width(const VolumeParams& params, std::size_t rows) {
  const std::size_t fitting = kTileBytes / rows / kTileAlign * kTileAlign;
  return std::min<std::size_t>(params.slot_size(), std::max(fitting, kTileAlign));
}

std::size_t largest_message(const VolumeParams& params) {
  const bool whole_path = params.evictor != Evictor::matrix;
  const std::size_t z = params.bucket_size;
  const std::size_t path = params.root_slots() + kMaxHeight * z;
  const std::size_t rows = whole_path ? path : z;
  const std::size_t orders = params.is_mirror() ? path * path / 8 + path
                             : whole_path       ? 2 * path
                                                : (kMaxHeight + 1) * 2 * z * z;
  const std::size_t largest_field = std::max<std::size_t>({
      params.slot_size(),                                            // a share
      path,                                                          // a query
      orders,                                                        // the orders of an eviction
      rows * tile_width(params, rows),                               // a subshare
      whole_path ? 5 * path * kDigest : 0,                           // the report on a shuffle
      (params.root_slots() + z) * slot_item(params),                 // lists of slots
      std::size_t{LayoutRequest::kMost} * BucketShape::kMostEncoded  // a list of buckets
  });
  return std::max(kLargestWithoutVolume, largest_field + kOtherFields);
}

}  // namespace s3oram
