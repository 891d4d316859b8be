// Reports to the user what a repair or a scrub has found.
#pragma once

#include <chrono>
#include <set>

#include "oramcore/base/error.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// Prints what was found at these servers, or at all servers if `servers` is empty. Errors:
/// damaged_vault (slots are lost).
Status report_repair(const Vault& of, const std::set<unsigned>& servers,
                     const RepairedVolume& repaired);

/// Waits until the daemon of a mounted vault has ended its scrub, and shows the progress. Errors:
/// unreachable (no progress for `timeout`, and there is a problem), not_mounted, those of the
/// scrub.
Result<RepairedVolume> await_scrub(const Vault& vault, std::chrono::seconds timeout);

}  // namespace s3oram
