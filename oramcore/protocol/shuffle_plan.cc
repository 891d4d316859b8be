// Plans shuffle evictions.
#include <algorithm>

#include "oramcore/protocol/plan.h"

namespace s3oram {
namespace {

struct Moving {
  Resident resident;
  std::size_t from;  // index in PathSlots::evicted()
  unsigned deepest;  // level of the path's last bucket that is also on the block's own path
};

unsigned deepest_level(Leaf leaf, std::uint64_t eviction, unsigned height) {
  const auto common = static_cast<unsigned>(std::countr_zero(leaf ^ eviction));
  return std::min(common, height);
}

std::vector<Moving> residents_of(const PathSlots& slots, const EvictionPath& path) {
  std::vector<Moving> all;
  for (unsigned level = 0; level <= path.height; ++level)
    for (const Resident& resident : path.on_path[level])
      all.push_back({resident, slots.index(level, resident.slot),
                     deepest_level(resident.leaf, path.eviction, path.height)});
  return all;
}

}  // namespace

EvictionPlan plan_shuffle_eviction(const VolumeParams& params, const EvictionPath& path) {
  EvictionPlan plan;
  const PathSlots slots = PathSlots::evicted(params, path.eviction, path.height);
  std::vector<Moving> blocks = residents_of(slots, path);
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Moving& a, const Moving& b) { return a.deepest > b.deepest; });
  constexpr auto kOpen = ~std::uint32_t{0};
  Permutation to(slots.count(), kOpen);
  std::vector<bool> taken(slots.count(), false);
  unsigned level = path.height;
  std::uint16_t used = 0;  // slots used in this level's bucket, or in the stash part
  for (const Moving& block : blocks) {
    if (block.deepest < level) used = 0;
    level = std::min(level, block.deepest);
    while (level > 0 && used == params.bucket_size) {
      --level;
      used = 0;
    }
    if (level == 0 && used == params.stash_slots) {
      plan.overflow.push_back(block.resident.block);
      continue;
    }
    const auto slot =
        static_cast<std::uint16_t>(level == 0 ? params.root_buffer_slots() + used : used);
    ++used;
    const std::size_t at = slots.index(level, slot);
    to[block.from] = static_cast<std::uint32_t>(at);
    taken[at] = true;
    plan.placements.push_back(
        {block.resident.block, block.resident.version, static_cast<std::uint8_t>(level), slot});
  }
  std::uint32_t free = 0;
  for (std::uint32_t& at : to) {
    if (at != kOpen) continue;
    while (taken[free]) ++free;
    at = free++;
  }
  plan.movement = std::move(to);
  return plan;
}

}  // namespace s3oram
