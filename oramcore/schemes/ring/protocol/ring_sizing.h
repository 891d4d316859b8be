// Chooses the numbers of a ring volume.
#pragma once

#include "oramcore/protocol/sizing.h"

namespace s3oram::ring {

/// Errors: usage, naming the wish that cannot be fulfilled.
Result<Choice> choose_ring(const Wishes& wishes);

}  // namespace s3oram::ring
