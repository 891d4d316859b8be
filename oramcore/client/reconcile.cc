#include "oramcore/client/reconcile.h"

namespace s3oram {

Result<std::optional<Due>> due_at(Party server, const OpenAnswer& stands, const TreeState& tree,
                                  const std::optional<EvictionId>& attempt) {
  if (stands.view > tree.view)
    return fail(Errc::stale_vault,
                "server {} has seen {} evictions and this vault {}: it is an old copy; use the "
                "newest one",
                server, stands.view, tree.view);
  if (stands.view + 1 == tree.view && stands.prepared == tree.last_decided)
    return std::optional(Due{MessageType::commit, tree.last_decided});
  if (stands.view != tree.view)
    return fail(Errc::wrong_volume,
                "server {} has lost evictions {} to {}: its store was set back to an old state",
                server, stands.view, tree.view - 1);
  if (stands.prepared && stands.prepared != attempt)
    return std::optional(Due{MessageType::discard, *stands.prepared});
  return std::optional<Due>();
}

Task<Status> bring_along(Servers& servers, Party server, OpenAnswer stands, const TreeState& tree,
                         const std::optional<EvictionId>& attempt, std::uint64_t epoch,
                         Duration patience) {
  const auto due = due_at(server, stands, tree, attempt);
  if (!due) co_return fail(due.error());
  if (!*due) co_return Status{};
  auto done = co_await servers.call_opened(server, (*due)->type, (*due)->message(epoch), patience);
  if (!done) co_return fail(done.error());
  co_return Status{};
}

}  // namespace s3oram
