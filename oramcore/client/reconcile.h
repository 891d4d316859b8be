// When a session is opened, servers may hold two different tree versions, from before and after an
// eviction. The client's state decides which one counts. These functions determine what to tell a
// server so that it holds that version too.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "oramcore/client/client_state.h"
#include "oramcore/client/servers.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram {

/// The reason why a vault may be behind its servers, and what the user can do about it.
constexpr std::string_view kBehindServers =
    "it is an old copy, or has lost the end of its log (vault.db-wal was damaged or removed); use "
    "the newest one";

/// The message that commits or discards the eviction that a server has prepared.
struct Due {
  MessageType type = {};
  EvictionId id;
  Bytes message(std::uint64_t epoch) const {
    Writer writer(Rpc::kHeaderSize);
    writer(epoch, id);
    return writer.take();
  }
};

/// Returns what the server must be told; std::nullopt if it holds the right version. `attempt` is
/// under way, and must not be discarded. Errors: stale_vault (the server is ahead), wrong_volume
/// (its store was rolled back).
Result<std::optional<Due>> due_at(Party server, const OpenAnswer& stands, const TreeState& tree,
                                  const std::optional<EvictionId>& attempt);

/// Tells the server what due_at() returns, while the session of this epoch is being opened at it
/// (Servers::Reconcile). Errors: those of due_at(), need_open, unreachable ...
Task<Status> bring_along(Servers& servers, Party server, OpenAnswer stands, const TreeState& tree,
                         std::optional<EvictionId> attempt, std::uint64_t epoch, Duration patience);

/// Returns the stamp for a root slot that a rebuild blanks because its write was not acknowledged.
/// The stamp is newer than all earlier ones, and no access of the session reaches it.
std::uint64_t blank_stamp(std::uint64_t epoch, std::size_t slot);

/// Returns the newest stamp that t + 1 servers have in this root slot; 0 if there is none.
std::uint64_t agreed_stamp(const std::vector<SurveyAnswer>& stand, std::size_t slot,
                           unsigned threshold);

/// Returns whether more than `threshold` servers hold a root write of one of the sessions in
/// `state` that `state` does not contain. A state records each write before the servers get it, so
/// this state is an old copy. (Accesses of older sessions do not count, because a copy that was
/// used since may rightly have forgotten them.)
bool wrote_since(const std::vector<SurveyAnswer>& stand, const ClientState::Loaded& state,
                 unsigned evict_every, unsigned threshold);

}  // namespace s3oram
