// Chooses how much of the tree the client keeps, and explains what that costs.
#include "oramcore/schemes/ring/protocol/ring_sizing.h"

#include <algorithm>

#include "oramcore/base/human.h"
#include "oramcore/protocol/bounds.h"
#include "oramcore/protocol/store_size.h"
#include "oramcore/schemes/ring/protocol/ring_params.h"

namespace s3oram::ring {
namespace {

constexpr std::uint16_t kBucketSize = 32, kEvictEvery = 46;
constexpr std::uint64_t kMostTopCache = std::uint64_t{512} << 20;
// Unless the user gives its size, top.cache takes at most this fraction of the expected data. The
// log of a local vault takes at most the second fraction of the data. What an empty volume takes of
// this machine's disk (if it is local, with its server's store) is at most the third fraction of
// it.
constexpr std::uint64_t kCachePart = 64, kLocalLogPart = 32, kDiskPart = 8;

std::uint64_t log_bytes(const VolumeParams& params) {
  return std::uint64_t{params.log_slots()} * (params.stored_slot() + VolumeParams::kStoredOverhead);
}

void set_top_levels(VolumeParams& params, unsigned levels) {
  params.top_levels = params.first_height = static_cast<std::uint8_t>(levels);
}

Status set_pair(const Wishes& wishes, VolumeParams& params) {
  params.bucket_size = wishes.bucket_size.value_or(kBucketSize);
  params.evict_every = wishes.evict_every.value_or(kEvictEvery);
  if (min_stash_slots(params.bucket_size, params.evict_every) > 0 || wishes.allow_overflow)
    return {};
  return fail(Errc::usage,
              "--bucket-size {} is too small for --evict-every {}: pairs with fewer than about 2.3 "
              "accesses per slot, such as 32 and 46, have a bound; --allow-overflow accepts that",
              params.bucket_size, params.evict_every);
}

/// Sets as many levels as were asked for, or as suit the data and the disk. check_params() must
/// hold for one level; it holds for the chosen ones, too.
Status choose_top(const Wishes& wishes, VolumeParams& params) {
  if (wishes.top_cache) {
    const unsigned levels = top_levels_for(params, *wishes.top_cache);
    set_top_levels(params, std::max(levels, 1u));
    if (levels > 0) return {};
    return fail(Errc::usage, "--top-cache {}: one level of the tree takes {}",
                human_size(*wishes.top_cache), human_size(cache_bytes(params)));
  }
  const std::uint64_t most = std::min(kMostTopCache, wishes.expect / kCachePart);
  const auto fits = [&] {
    const std::uint64_t store = wishes.local ? store_bytes(params, params.first_height) : 0;
    if (wishes.free && cache_bytes(params) + store > *wishes.free / kDiskPart) return false;
    return !wishes.local || log_bytes(params) <= wishes.expect / kLocalLogPart;
  };
  unsigned levels = std::max(top_levels_for(params, most), 1u);
  for (set_top_levels(params, levels); levels > 1 && !fits();) set_top_levels(params, --levels);
  return {};
}

std::string top_reason(const Wishes& wishes, const VolumeParams& params) {
  return fmt::format(
      "The top {} of the tree {} here, in top.cache: it takes at most {}{}. Its log takes {} of "
      "the server's disk.\n",
      params.top_levels == 1 ? "level" : fmt::format("{} levels", params.top_levels),
      params.top_levels == 1 ? "lies" : "lie", human_size(cache_bytes(params)),
      wishes.top_cache ? "" : " (--top-cache gives it more or less)",
      human_size(log_bytes(params)));
}

AccessTraffic access_traffic(const VolumeParams& params, const AccessCost& cost) {
  const double row = params.stored_slot();
  return {.block = params.block_size,
          .up = cost.up * row,
          .down = cost.down * row,
          .first_up = row,
          .first_down = cost.read_down * row,
          .servers = 1};
}

/// Returns the seconds from one access to the next when many are under way.
double seconds_on_lines(const Wishes& wishes, const VolumeParams& params) {
  const AccessCost cost = ring::access_cost(params, height_with(params, wishes.expect));
  return seconds_between_accesses(access_traffic(params, cost), wishes.lines);
}

std::string cost_of(const Wishes& wishes, const VolumeParams& params) {
  const unsigned height = height_with(params, wishes.expect);
  const AccessCost cost = ring::access_cost(params, height);
  return fmt::format(
             "Buckets of {} slots, an eviction every {} accesses. With {:.1f} GiB of data (a tree "
             "of "
             "height {}) an access sends {:.1f} blocks and receives {:.1f}, evictions included; a "
             "read "
             "waits for {:.0f}.\n"
             "That much data takes {} of the server's disk.\n",
             params.bucket_size, params.evict_every,
             static_cast<double>(wishes.expect) / (1u << 30), height, cost.up, cost.down,
             cost.read_down, human_size(store_bytes(params, height))) +
         (wishes.local ? "" : to_text(predict(access_traffic(params, cost), wishes.lines)));
}

}  // namespace

Result<Choice> choose_ring(const Wishes& wishes) {
  VolumeParams params{.scheme = wishes.scheme};
  params.privacy = wishes.privacy;
  params.evictor = Evictor::polynomial;
  S3O_TRY(set_pair(wishes, params));
  params.block_size = first_block_size(wishes);
  set_top_levels(params, 1);
  S3O_TRY(check_params(params));
  S3O_TRY(choose_top(wishes, params));
  while (wants_smaller_blocks(wishes, params.block_size, seconds_on_lines(wishes, params))) {
    params.block_size /= 2;
    S3O_TRY(choose_top(wishes, params));
  }
  const std::uint64_t blocks = (wishes.expect + params.block_size - 1) / params.block_size;
  return Choice{params,
                "Ring on one server: it learns neither what is stored nor what is accessed, and "
                "what it alters is noticed.\n"
                "One copy: this server's disk is your disk: keep it on RAID or back it up.\n" +
                    size_reason(wishes, params, blocks) + top_reason(wishes, params) +
                    cost_of(wishes, params)};
}

}  // namespace s3oram::ring
