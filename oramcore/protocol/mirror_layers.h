// Bounds the number of layers that the evictions of a mirror put on a block
// (docs/protocol-mirror.md).
#pragma once

#include <algorithm>

#include "oramcore/protocol/params.h"

namespace s3oram {

/// Returns how many layers a block has at most in a tree of this height, with a probability of at
/// least 1 - 2^-40: about one for each sweep of the tree between two accesses of the maintenance,
/// while it lies in a leaf, and one or two for each level on its way there.
constexpr unsigned most_layers(unsigned height) {
  return std::min(VolumeParams::kMirrorLayers, VolumeParams::kMaintainEvery / 2 + height + 15);
}

}  // namespace s3oram
