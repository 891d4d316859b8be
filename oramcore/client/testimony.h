// What servers say of where they stand counts if t + 1 of them say so: fewer may lie. Whoever
// differs from the others is named, and nothing is done because of it.
#pragma once

#include <vector>

#include "oramcore/client/client_state.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram {

/// Whether this vault is an old copy, as far as `stand` tells, which has all servers' answers in
/// order. A pure function. Errors: stale_vault (t + 1 servers have gone on without it),
/// servers_disagree (fewer say so; they are named).
Status check_testimony(const std::vector<SurveyAnswer>& stand, const ClientState::Loaded& vault,
                       const VolumeParams& params);

/// The newest tree version that can be believed: t + 1 servers have reached it, or it is one
/// eviction ahead of that and the others have prepared this eviction. Errors: servers_disagree (a
/// server says that it is further; it is named).
Result<std::uint64_t> believed_tree_version(const std::vector<SurveyAnswer>& stand,
                                            unsigned threshold);

}  // namespace s3oram
