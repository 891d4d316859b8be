// Plans triplet evictions.
#include "oramcore/protocol/plan.h"

namespace s3oram {
namespace {

// The target bucket after a matrix step.
struct Target {
  MatrixStep step;
  BucketContents contents;
};

// Blocks of the target keep their slots; those of the source whose leaf lies below `bucket` take
// the lowest free slots.
Target push(const BucketContents& source, const BucketContents& target, BucketIndex bucket,
            std::uint16_t bucket_size, std::vector<std::uint64_t>& overflow) {
  Target result;
  std::vector<bool> taken(bucket_size, false);
  for (const Resident& resident : target) {
    taken[resident.slot] = true;
    result.step.moves.push_back(
        {static_cast<std::uint16_t>(bucket_size + resident.slot), resident.slot});
    result.contents.push_back(resident);
  }
  std::uint16_t free = 0;
  for (const Resident& resident : source) {
    if (bucket_on_path(resident.leaf, level_of(bucket)) != bucket) continue;
    while (free < bucket_size && taken[free]) ++free;
    if (free == bucket_size) {
      overflow.push_back(resident.block);
      continue;
    }
    result.step.moves.push_back({resident.slot, free});
    result.contents.push_back({resident.block, free++, resident.leaf, resident.version});
  }
  return result;
}

}  // namespace

EvictionPlan plan_triplet_eviction(const VolumeParams& params, const EvictionPath& path) {
  EvictionPlan plan;
  std::vector<MatrixStep> steps;
  const PathSlots slots = PathSlots::evicted(params, path.eviction, path.height);
  BucketContents source = path.on_path[0];
  for (Resident& resident : source)
    resident.slot = static_cast<std::uint16_t>(slots.index(0, resident.slot));
  const auto place = [&plan](const BucketContents& contents, unsigned level) {
    for (const Resident& resident : contents)
      plan.placements.push_back(
          {resident.block, resident.version, static_cast<std::uint8_t>(level), resident.slot});
  };
  for (unsigned level = 1; level <= path.height; ++level) {
    const BucketIndex destination = bucket_on_path(path.eviction, level);
    const BucketIndex sibling = sibling_of(destination);
    Target down = push(source, path.on_path[level], destination, params.bucket_size, plan.overflow);
    steps.push_back(std::move(down.step));
    if (level < path.height) {
      // The sibling becomes a copy of the source, so the blocks keep their slots.
      BucketContents copied;
      for (const Resident& resident : source)
        if (bucket_on_path(resident.leaf, level) == sibling) copied.push_back(resident);
      place(copied, level);
    } else {
      Target aside = push(source, path.leaf_sibling, sibling, params.bucket_size, plan.overflow);
      steps.push_back(std::move(aside.step));
      place(aside.contents, level);
      place(down.contents, level);
    }
    source = std::move(down.contents);
  }
  plan.movement = std::move(steps);
  return plan;
}

}  // namespace s3oram
