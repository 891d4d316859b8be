// The size of a ring volume's top, and the cost of an access.
#include "oramcore/schemes/ring/protocol/ring_params.h"

#include <cmath>

namespace s3oram::ring {
namespace {

// The allowed deviation of the occupancy: P[normal > 11 sigma] < 2^-90.
constexpr double kDeviations = 11;

constexpr double kGroupDeviations = 8;

}  // namespace

unsigned Params::cache_reads() const {
  // The group's leaves are drawn by the accesses since the group's last eviction.
  const double turns = static_cast<double>(evict_every) * (groups() + most_evictions_due() + 1);
  const double blocks = turns / groups();
  return static_cast<unsigned>(std::ceil(blocks + kGroupDeviations * std::sqrt(blocks)));
}

std::uint64_t cache_slots(const VolumeParams& volume) {
  const Params params(volume);
  const double top = static_cast<double>(params.evict_every) * params.groups();
  const double lagging = static_cast<double>(params.evict_every) * params.most_evictions_due();
  const double slots = top / 2 + lagging + kDeviations * std::sqrt(top / 2);
  return static_cast<std::uint64_t>(std::ceil(slots)) + 2u * params.evict_every;
}

std::uint64_t cache_bytes(const VolumeParams& params) {
  return cache_slots(params) * params.slot_size();
}

unsigned top_levels_for(const VolumeParams& params, std::uint64_t bytes) {
  VolumeParams more = params;
  unsigned levels = 0;
  for (unsigned k = 1; k <= kMostTopLevels; ++k) {
    more.top_levels = static_cast<std::uint8_t>(k);
    if (cache_bytes(more) > bytes || more.log_slots() > kMostLogSlots) break;
    levels = k;
  }
  return levels;
}

unsigned height_for(const VolumeParams& params, std::uint64_t blocks) {
  unsigned height = params.top_levels;
  while (height < kMaxHeight && capacity(height, params.filling()) < blocks) ++height;
  return height;
}

AccessCost access_cost(const VolumeParams& params, unsigned height) {
  const double levels = static_cast<double>(height) - params.top_levels + 1;
  const double eviction = levels * params.bucket_size / params.evict_every;
  const double overhead = static_cast<double>(params.stored_slot()) / params.block_size;
  return {.up = (1 + eviction) * overhead,
          .down = (levels + eviction) * overhead,
          .read_down = levels * overhead};
}

}  // namespace s3oram::ring
