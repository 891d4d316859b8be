// Compares the servers' states with the client's.
#include "oramcore/client/reconcile.h"

#include <algorithm>
#include <map>

namespace s3oram {
namespace {

/// Returns whether a stamp is that of a blanked slot, in any session.
bool is_blank(std::uint64_t stamp, std::size_t slot) {
  return (stamp + slot + 1 - first_access(0)) % (first_access(1) - first_access(0)) == 0;
}

}  // namespace

Result<std::optional<Due>> due_at(Party server, const OpenAnswer& stands, const TreeState& tree,
                                  const std::optional<EvictionId>& attempt) {
  if (stands.tree_version > tree.tree_version)
    return fail(Errc::stale_vault, "server {} has seen {} evictions and this vault {}: {}", server,
                stands.tree_version, tree.tree_version, kBehindServers);
  if (stands.tree_version + 1 == tree.tree_version && stands.prepared == tree.last_decided)
    return std::optional(Due{MessageType::commit, tree.last_decided});
  if (stands.tree_version != tree.tree_version)
    return fail(Errc::wrong_volume,
                "server {} has lost evictions {} to {}: its store was set back to an old state",
                server, stands.tree_version, tree.tree_version - 1);
  if (stands.prepared && stands.prepared != attempt)
    return std::optional(Due{MessageType::discard, *stands.prepared});
  return std::optional<Due>();
}

Task<Status> bring_along(Servers& servers, Party server, OpenAnswer stands, const TreeState& tree,
                         std::optional<EvictionId> attempt, std::uint64_t epoch,
                         Duration patience) {
  S3O_CO_ASSIGN(const auto due, due_at(server, stands, tree, attempt));
  if (!due) co_return Status{};
  S3O_CO_TRY(co_await servers.call_opened(server, due->type, due->message(epoch), patience));
  co_return Status{};
}

std::uint64_t blank_stamp(std::uint64_t epoch, std::size_t slot) {
  return first_access(epoch + 1) - 1 - slot;
}

std::uint64_t agreed_stamp(const std::vector<SurveyAnswer>& stand, std::size_t slot,
                           unsigned threshold) {
  std::map<std::uint64_t, unsigned> servers;  // by stamp
  for (const SurveyAnswer& each : stand)
    if (slot < each.root.size()) ++servers[each.root[slot]];
  std::uint64_t newest = 0;
  for (const auto& [stamp, count] : servers)
    if (count > threshold) newest = stamp;
  return newest;
}

bool wrote_since(const std::vector<SurveyAnswer>& stand, const ClientState::Loaded& state,
                 unsigned evict_every, unsigned threshold) {
  const std::uint64_t first = first_access(state.sessions.front().epoch);
  std::vector<bool> used(state.root.size(), true);
  for (WriteNumber write_number = state.tree.written; write_number < used.size(); ++write_number)
    used[root_slot(write_number, evict_every)] = false;
  for (std::size_t slot = 0; slot < state.root.size(); ++slot) {
    const auto& known = state.root[slot];
    const auto is_newer = [&](const SurveyAnswer& each) {
      const std::uint64_t stamp = slot < each.root.size() ? each.root[slot] : 0;
      // A slot about which nothing is known may have been forgotten, unless it was never used.
      return stamp >= first && !is_blank(stamp, slot) &&
             (known ? *known != 0 && stamp > *known : !used[slot]);
    };
    if (std::ranges::count_if(stand, is_newer) > threshold) return true;
  }
  return false;
}

}  // namespace s3oram
