// Determines which old row becomes each row of a new path: the selection made by a mirror's
// eviction.
#pragma once

#include <optional>
#include <vector>

#include "oramcore/protocol/plan.h"

namespace s3oram::mirror {

/// For each place on the new path: the old row, as numbered by PathSlots::evicted(), or none. Only
/// blocks that are still in use are moved.
using Selection = std::vector<std::optional<std::uint32_t>>;

Selection selection_of(const VolumeParams& params, const EvictionPlan& plan, unsigned height,
                       std::uint64_t eviction);

}  // namespace s3oram::mirror
