// Computes the sizes of stores and vaults.
#include "oramcore/protocol/store_size.h"

namespace s3oram {
namespace {

constexpr std::uint64_t kDatabase = 1 << 20;  // bytes in a new volume, including its log
constexpr std::uint64_t kDatabaseBytesPerBucketVersion = 64;
constexpr std::uint64_t kAskedBytesPerBucketVersion = 64;  // ring's record of points asked for

/// Evictions of ring under way at the same time, each with its old and its new versions.
constexpr std::uint64_t kRingEvictions = 4;

std::uint64_t ring_versions_needed(const VolumeParams& params, unsigned height) {
  const std::uint64_t path = height - params.top_levels + std::uint64_t{1};
  const std::uint64_t tree = (std::uint64_t{2} << height) - (std::uint64_t{1} << params.top_levels);
  return tree + 2 * kRingEvictions * path;
}

}  // namespace

// After matrix evictions, half of the inner buckets are empty.
std::uint64_t bucket_versions_needed(const VolumeParams& params, unsigned height) {
  if (params.is_ring()) return ring_versions_needed(params, height);
  const bool matrix = params.evictor == Evictor::matrix;
  const std::uint64_t tree = matrix ? (std::uint64_t{3} << height) / 2 : std::uint64_t{2} << height;
  return tree + params.stash_buckets() + 2 * (height + std::uint64_t{1} + params.stash_buckets());
}

std::uint64_t store_bytes(const VolumeParams& params, unsigned height) {
  const std::uint64_t bucket_versions = bucket_versions_needed(params, height);
  const std::uint64_t slots =
      params.newest_slots() + bucket_versions * params.slots_of_bucket_version();
  return slots * (params.stored_slot() + VolumeParams::kStoredOverhead) + kDatabase +
         kServerBallast + bucket_versions * kDatabaseBytesPerBucketVersion +
         (params.is_ring() ? (bucket_versions + 1) * kAskedBytesPerBucketVersion : 0);
}

}  // namespace s3oram
