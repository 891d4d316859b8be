// Orders the writes of dirty blocks.
#include "fused/cache/flush_queue.h"

namespace s3oram {

void FlushQueue::want(const Handle& block, bool awaited, Timing::Time now) {
  if (!block->node || !block->dirty) return;
  if (block->flushing) {
    block->again = true;
    block->awaited |= awaited;
    return;
  }
  if (now < block->not_before) return;
  List& queue = awaited ? awaited_ : queue_;
  if (!block->queue)
    block->turn = queue.insert(queue.end(), block);
  else if (awaited && block->queue != &awaited_)
    awaited_.splice(awaited_.end(), queue_, block->turn);
  else
    return;
  block->queue = &queue;
}

std::optional<FlushQueue::Next> FlushQueue::take() {
  while (!empty()) {
    const bool awaited = has_awaited();
    List& queue = awaited ? awaited_ : queue_;
    Handle block = std::move(queue.front());
    queue.pop_front();
    block->queue = nullptr;
    if (block->node && block->dirty && !block->flushing) return Next{std::move(block), awaited};
  }
  return std::nullopt;
}

void FlushQueue::retry(Timing::Time now) {
  for (auto at = failed_.begin(); at != failed_.end();) {
    const auto next = std::next(at);
    if ((*at)->not_before <= now) {
      want(*at, true, now);  // it has waited long enough
      failed_.erase(at);
    }
    at = next;
  }
}

}  // namespace s3oram
