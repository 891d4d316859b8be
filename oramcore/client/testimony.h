// Servers say where they stand. A statement counts if t + 1 of them make it, because fewer may lie.
// A server that differs from the others is named, and nothing is done because of it.
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

/// Returns the tree version that counts: the newest one that t + 1 servers have reached. A server
/// may be one eviction ahead of it, if the others have prepared that eviction: it can take it back.
/// In a mirror those that were left out before are not asked about that. Errors: servers_disagree
/// (a server says that it is further; it is named).
Result<std::uint64_t> believed_tree_version(const std::vector<SurveyAnswer>& stand,
                                            const VolumeParams& params);

/// Returns the height that t + 1 of the servers, which are all in one tree version, say that the
/// tree has. Errors: servers_disagree (a server says another one; it is named).
Result<unsigned> believed_height(const std::vector<SurveyAnswer>& stand, unsigned threshold);

}  // namespace s3oram
