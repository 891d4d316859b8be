// How large the messages of a volume can be.
//
// A party takes no message that is larger: ZeroMQ makes room for a message as soon as its length
// has arrived, which is before anything in it can be trusted.
#pragma once

#include <cstddef>

#include "oramcore/protocol/params.h"

namespace s3oram {

/// Columns of a tile: an eviction passes `rows` slots on in messages of so many columns each
/// (docs/formats.md). At most slot_size().
std::size_t tile_width(const VolumeParams& params, std::size_t rows);

/// Bytes of the largest message that the protocol has for a volume with these numbers, at any
/// height, in either direction. At least kLargestWithoutVolume.
std::size_t largest_message(const VolumeParams& params);

}  // namespace s3oram
