// Computes how large the messages of a volume can be.
//
// A party accepts no larger message, because ZeroMQ allocates memory for a message as soon as its
// length has arrived, before anything in it can be trusted.
#pragma once

#include <cstddef>

#include "oramcore/protocol/params.h"

namespace s3oram {

/// Returns the number of columns in a tile. An eviction passes on `rows` slots in messages of this
/// many columns each (docs/formats.md). At most slot_size().
std::size_t tile_width(const VolumeParams& params, std::size_t rows);

/// Returns the bytes of the protocol's largest message for a volume with these numbers, at any
/// height, in either direction. At least kLargestWithoutVolume.
std::size_t largest_message(const VolumeParams& params);

}  // namespace s3oram
