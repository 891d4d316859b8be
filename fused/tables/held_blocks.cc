// Finds extents that name the same place, or overlapping pieces of a pack.
#include "fused/tables/held_blocks.h"

#include <algorithm>

namespace s3oram {

void HeldBlocks::reset(const std::vector<BlockId>& mapped, const std::vector<OwnedPlace>& owned,
                       std::uint32_t block_size) {
  *this = HeldBlocks();
  if (!mapped.empty()) held_.resize(mapped.back() + 1);
  for (const BlockId block : mapped) held_[block] = true;
  const auto by_place = [](const OwnedPlace& a, const OwnedPlace& b) { return a.place < b.place; };
  std::size_t farthest = 0;  // the earlier piece that reaches farthest into its pack
  const auto end_of = [&](std::size_t i) {
    return std::uint64_t{offset_of(owned[i].place)} + owned[i].valid;
  };
  for (std::size_t i = 0; i < owned.size(); ++i) {
    const auto [place, valid] = owned[i];
    if (i > 0 && owned[i - 1].place == place) bad_.insert(place);
    if (!is_packed(place)) continue;
    if (valid == 0 || end_of(i) > block_size) bad_.insert(place);
    const BlockId before = owned[farthest].place;
    const bool same_pack = farthest < i && is_packed(before) && block_of(before) == block_of(place);
    if (same_pack && end_of(farthest) > offset_of(place)) bad_.insert({place, before});
    if (!same_pack || end_of(i) >= end_of(farthest)) farthest = i;
    if (std::binary_search(owned.begin(), owned.end(), OwnedPlace{block_of(place), 0}, by_place)) {
      bad_.insert(place);
      bad_.insert(block_of(place));
    }
  }
}

void HeldBlocks::written(BlockId place) {
  const BlockId block = block_of(place);
  if (block >= held_.size()) held_.resize(block + 1);
  held_[block] = true;
}

}  // namespace s3oram
