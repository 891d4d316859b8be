// Evaluates what servers say about their state. A statement counts if t + 1 of them make it,
// because up to t may lie. A server that differs from the others is named, but its statement has no
// effect.
#pragma once

#include <map>
#include <vector>

#include "oramcore/client/client_state.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram {

/// What the servers that answered say about their state.
using Stand = std::map<Party, SurveyAnswer>;

/// Checks that this vault is not an old copy, as far as `stand`, the answers of all servers in
/// order, shows. A pure function. Errors: stale_vault (t + 1 servers show that a newer copy has
/// used the volume), servers_disagree (fewer say so; they are named).
Status check_testimony(const std::vector<SurveyAnswer>& stand, const ClientState::Loaded& vault,
                       const VolumeParams& params);

/// Returns the tree version that counts: the newest one that t + 1 servers have reached. A server
/// may be one eviction ahead of it, if the others have prepared that eviction, because the server
/// can take it back. In a mirror, servers that were left out before need not have prepared it.
/// Errors: servers_disagree (a server claims to be further ahead; it is named, together with the
/// one that denies it, if few enough do to be lying).
Result<std::uint64_t> believed_tree_version(const Stand& stand, const VolumeParams& params);

/// Returns the height of the tree according to t + 1 of the servers, which are all in one tree
/// version. Errors: servers_disagree (a server reports another height; it is named).
Result<unsigned> believed_height(const Stand& stand, unsigned threshold);

}  // namespace s3oram
