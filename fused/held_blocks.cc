#include "fused/held_blocks.h"

#include <algorithm>

namespace s3oram {

void HeldBlocks::reset(const std::vector<BlockId>& mapped, const std::vector<OwnedPlace>& owned,
                       std::uint32_t block_size) {
  *this = HeldBlocks();
  if (!mapped.empty()) held_.resize(mapped.back() + 1);
  for (const BlockId block : mapped) held_[block] = true;
  const auto by_place = [](const OwnedPlace& a, const OwnedPlace& b) { return a.place < b.place; };
  for (std::size_t i = 0; i < owned.size(); ++i) {
    const auto [place, valid] = owned[i];
    if (i > 0 && owned[i - 1].place == place) bad_.insert(place);
    if (!is_packed(place)) continue;
    const std::uint32_t end = offset_of(place) + valid;
    if (valid == 0 || end > block_size) bad_.insert(place);
    if (i > 0 && is_packed(owned[i - 1].place) && block_of(owned[i - 1].place) == block_of(place) &&
        offset_of(owned[i - 1].place) + owned[i - 1].valid > offset_of(place)) {
      bad_.insert(place);
      bad_.insert(owned[i - 1].place);
    }
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
