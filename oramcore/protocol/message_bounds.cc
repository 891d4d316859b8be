// Computes the size of the largest message of messages.h and repair_messages.h.
#include "oramcore/protocol/message_bounds.h"

#include <algorithm>

#include "oramcore/net/transport.h"
#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram {
namespace {

constexpr std::size_t kTileBytes = 1 << 18;  // of a message
constexpr std::size_t kTileAlign = 128;

// Room for everything beside the largest field: the header, numbers, digests, and a seed and a
// number for each of up to 127 servers.
constexpr std::size_t kOtherFields = 8192;
// Bytes of an item in a list with one for each slot of a bucket: a SlotDigest is the largest.
constexpr std::size_t kSlotItem = 40;
constexpr std::size_t kDigest = 16;  // of a row (hop_check.h)

/// Returns the bytes of a slot in a message; in a mirror they include a SlotHead.
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
      params.slot_size(),                             // a share
      path,                                           // a query
      orders,                                         // of an eviction
      rows * tile_width(params, rows),                // a subshare
      whole_path ? 5 * path * kDigest : 0,            // what is reported of a shuffle
      (params.root_slots() + z) * slot_item(params),  // what is said of slots
      std::size_t{LayoutRequest::kMost} * BucketShape::kMostEncoded  // and of buckets
  });
  return std::max(kLargestWithoutVolume, largest_field + kOtherFields);
}

}  // namespace s3oram
