// Counts the blocks in memory.
#include "fused/cache/cached_blocks.h"

#include <vector>

namespace s3oram {

CachedBlocks::Handle CachedBlocks::add(Node& node, std::uint64_t index) {
  auto block = std::make_shared<CachedBlock>();
  block->node = &node;
  block->index = index;
  node.blocks.emplace(index, block);
  return block;
}

void CachedBlocks::account(const Handle& block) {
  const bool here = block->node != nullptr;
  const bool unflushed = here && block->unflushed();
  const std::size_t charge = !here ? 0 : block->loading ? block_size_ : block->data.capacity();
  bytes_ += charge - block->charged;
  dirty_bytes_ += (unflushed ? charge : 0) - block->charged_dirty;
  const bool needs_room = here && block->needs_room();
  const std::size_t room = !needs_room                        ? 0
                           : packs_.takes(block->data.size()) ? charge
                                                              : block_size_;
  room_bytes_ += room - block->charged_room;
  block->charged = charge;
  block->charged_dirty = unflushed ? charge : 0;
  block->charged_room = room;
  if (here) {
    const bool is_new = !block->owned && !block->loading;
    block->node->unflushed += unflushed - block->counted_unflushed;
    block->node->new_blocks += is_new - block->counted_new;
    block->counted_unflushed = unflushed;
    block->counted_new = is_new;
  }
  List* list = !here || block->loading || block->flushing ? nullptr
               : block->dirty                             ? &dirty_
                                                          : &clean_;
  if (list == block->list) return;
  // `block` may be the list's own. NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const Handle keep = block;
  if (keep->list) keep->list->erase(keep->place);
  if (list) keep->place = list->insert(list->end(), keep);
  keep->list = list;
}

void CachedBlocks::cut_off(const Handle& block) {
  // `block` may be the node's own. NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const Handle keep = block;
  Node& node = *keep->node;
  node.unflushed -= keep->counted_unflushed;
  node.new_blocks -= keep->counted_new;
  keep->counted_unflushed = keep->counted_new = false;
  keep->node = nullptr;
  node.blocks.erase(keep->index);
  account(keep);
}

void CachedBlocks::evict() {
  for (auto at = clean_.begin(); bytes() > limit_ && at != clean_.end();) {
    const Handle block = *at++;
    if (block->pins == 0) cut_off(block);
  }
}

void CachedBlocks::drop_clean(Node& node) {
  std::vector<Handle> clean;
  for (const auto& [index, block] : node.blocks)
    if (block->list == &clean_ && block->pins == 0) clean.push_back(block);
  for (const Handle& block : clean) cut_off(block);
}

}  // namespace s3oram
