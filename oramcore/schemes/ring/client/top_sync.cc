// Syncs of top.cache, one at a time.
#include "oramcore/schemes/ring/client/top_sync.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram::ring {

Task<void> TopSync::sync() {
  // Only one at a time: of two syncs of a file, one may be told about a failure that concerns both.
  while (syncing_) co_await ring_.changed.wait();
  if (doubt_.passes()) co_return;
  syncing_ = true;
  const Turn written = ring_.tree.written;
  bool is_there = true;
  if (doubt_.failure()) is_there = co_await write_doubtful_again();
  if (is_there) co_await sync_until(written);
  syncing_ = false;
  ring_.changed.notify_all();
}

Task<void> TopSync::sync_alone() {
  if (!syncing_ && !doubt_.failure()) co_await sync();
}

/// Writes again what a failed sync may have lost. Returns whether it is all in the cache.
Task<bool> TopSync::write_doubtful_again() {
  const RingTree& tree = ring_.tree;
  const Turn oldest = tree.written - std::min<Turn>(tree.written, ring_.params.log_slots);
  const auto lacking = co_await refill_.refill(std::max(tree.synced, oldest));
  co_return lacking.has_value() && lacking->empty();
}

Task<void> TopSync::sync_until(Turn written) {
  const Status synced =
      co_await offload(ring_.environment.pool, [this] { return ring_.cache.sync(); });
  if (!synced) {
    spdlog::error(
        "top.cache: {}; nothing is lost, because the server's log has the same blocks; what was "
        "written since the last sync is written again",
        synced.error().message);
    doubt_.failed(synced.error(), ring_.next_turn);
    co_return;
  }
  doubt_.synced(written);
  ring_.tree.synced = std::max(ring_.tree.synced, written);
  top_.forget_logged(ring_.tree.synced);
}

std::string TopSync::trouble() const {
  if (top_.unwritten()) return top_.unwritten()->message;
  return doubt_.failure() ? doubt_.failure()->message : std::string();
}

}  // namespace s3oram::ring
