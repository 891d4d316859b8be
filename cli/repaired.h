// What a repair or a scrub has found, as the user is told.
#pragma once

#include <chrono>
#include <set>

#include "oramcore/base/error.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// Prints what was found, of these servers (of all, if there are none). Errors: damaged_vault
/// (slots are lost).
Status report_repair(const Vault& of, const std::set<unsigned>& servers,
                     const RepairedVolume& repaired);

/// Waits until the daemon of a mounted vault has ended its scrub, and shows how far it is. Errors:
/// unreachable (it has made no progress for `timeout`, and there is a problem), not_mounted, those
/// of the scrub.
Result<RepairedVolume> await_scrub(const Vault& vault, std::chrono::seconds timeout);

}  // namespace s3oram
