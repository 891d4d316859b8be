// After a session was opened the servers may stand in two views, before and after an eviction. The
// client's state decides which it is; this says what a server must be told, so that it stands there
// too.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "oramcore/client/client_state.h"
#include "oramcore/client/servers.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram {

/// What may be the matter with a vault that is behind its servers, and what to do.
constexpr std::string_view kBehindServers =
    "it is an old copy, or has lost the end of its log (vault.db-wal was damaged or removed); use "
    "the newest one";

/// A commit or a discard of the eviction that the server has prepared.
struct Due {
  MessageType type = {};
  EvictionId id;
  Bytes message(std::uint64_t epoch) const {
    Writer writer(Rpc::kHeaderSize);
    writer(epoch, id);
    return writer.take();
  }
};

/// Nothing: the server stands where it should. `attempt`: one that is under way and stays so.
/// Errors: stale_vault (the server is ahead), wrong_volume (its store was set back).
Result<std::optional<Due>> due_at(Party server, const OpenAnswer& stands, const TreeState& tree,
                                  const std::optional<EvictionId>& attempt);

/// Tells it, while the session of this epoch is being opened there (Servers::Reconcile). Errors:
/// those of due_at(), need_open, unreachable ...
Task<Status> bring_along(Servers& servers, Party server, OpenAnswer stands, const TreeState& tree,
                         std::optional<EvictionId> attempt, std::uint64_t epoch, Duration patience);

/// What a root slot gets at a rebuild instead of a write that was not acknowledged: newer than all
/// before, and no access of the session comes as far.
std::uint64_t blank_stamp(std::uint64_t epoch, std::size_t slot);

/// The newest stamp that t + 1 servers have in this root slot; 0 if there is none.
std::uint64_t agreed_stamp(const std::vector<SurveyAnswer>& stand, std::size_t slot,
                           unsigned threshold);

/// Whether t + 1 servers have a root write that `state` does not know of, though it is of one of
/// its sessions. It knows of each before they do: then it is an old copy. (Accesses of older
/// sessions may have been forgotten with good reason, by a copy that was gone on with.)
bool wrote_since(const std::vector<SurveyAnswer>& stand, const ClientState::Loaded& state,
                 const VolumeParams& params);

}  // namespace s3oram
