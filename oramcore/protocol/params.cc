// Checks and compares the numbers of a volume.
#include "oramcore/protocol/params.h"

#include "oramcore/oram/geometry.h"

namespace s3oram {
namespace {

constexpr unsigned kMostRootSlots = 0xffff, kMostPathSlots = 0xffff;

Status check_matrix(const VolumeParams& params) {
  if (params.security == Security::malicious)
    return fail(Errc::usage,
                "only the shuffle evictor detects servers that lie in an eviction: with the matrix "
                "evictor, a volume's security is honest-but-curious");
  if (params.bucket_size < params.evict_every)
    return fail(Errc::usage, "a bucket of {} slots cannot hold the {} accesses between evictions",
                params.bucket_size, params.evict_every);
  if (params.stash_slots != 0)
    return fail(Errc::usage, "the matrix evictor has no stash slots, but {} are given",
                params.stash_slots);
  return {};
}

Status check_shuffle(const VolumeParams& params) {
  if (params.scheme.threshold != 1 || params.scheme.servers != 3)
    return fail(Errc::usage, "the shuffle evictor needs 3 servers of which any 1 may be curious");
  if (params.privacy != Privacy::computational)
    return fail(Errc::usage,
                "the shuffle evictor's masks come from seeds: its privacy is not "
                "information-theoretic");
  if (params.stash_slots < params.bucket_size || params.stash_slots % params.bucket_size != 0)
    return fail(Errc::usage, "{} stash slots: must be a multiple of the bucket size, {}",
                params.stash_slots, params.bucket_size);
  if (params.root_slots() + kMaxHeight * params.bucket_size > kMostPathSlots)
    return fail(Errc::usage, "buckets of {} slots make paths of more than {}", params.bucket_size,
                kMostPathSlots);
  return {};
}

Status check_ring(const VolumeParams& params) {
  const auto [threshold, servers] = params.scheme;
  if (threshold != 0 || servers != 1)
    return fail(Errc::usage, "a ring has exactly 1 server, not {}", servers);
  if (params.privacy != Privacy::computational)
    return fail(Errc::usage, "ring's points come from seeds: its privacy is computational");
  if (params.stash_slots != 0)
    return fail(Errc::usage, "ring has no stash slots, but {} are given", params.stash_slots);
  if (params.block_size > kMostRingBlockSize)
    return fail(Errc::usage, "ring's blocks have at most {} bytes, not {}", kMostRingBlockSize,
                params.block_size);
  if (params.bucket_size > kMostRows)
    return fail(Errc::usage, "ring's buckets have at most {} rows, not {}", kMostRows,
                params.bucket_size);
  if (params.top_levels < 1 || params.top_levels > kMostTopLevels)
    return fail(Errc::usage, "the client keeps 1 to {} levels of the tree, not {}", kMostTopLevels,
                params.top_levels);
  if (params.first_height < params.top_levels)
    return fail(Errc::usage, "a tree of height {} is lower than its {} levels at the client",
                params.first_height, params.top_levels);
  if ((std::uint64_t{4} * params.evict_every << params.top_levels) > kMostLogSlots)
    return fail(Errc::usage, "{} levels at the client need a log of more than {} slots: keep fewer",
                params.top_levels, kMostLogSlots);
  return {};
}

Status check_mirror(const VolumeParams& params) {
  const auto [threshold, servers] = params.scheme;
  if (threshold < 1 || servers <= threshold || servers > kMostMirrors)
    return fail(Errc::usage,
                "a mirror needs {} to {} servers for a privacy threshold of {}, not {}",
                threshold + 1, kMostMirrors, threshold, servers);
  if (params.privacy != Privacy::computational)
    return fail(Errc::usage, "a mirror's masks come from seeds: its privacy is computational");
  if (params.block_size % 16 != 0)
    return fail(Errc::usage, "a mirror's blocks are multiples of 16 bytes, unlike {}",
                params.block_size);
  if (params.stash_slots < params.bucket_size || params.stash_slots % params.bucket_size != 0)
    return fail(Errc::usage, "{} stash slots: must be a multiple of the bucket size, {}",
                params.stash_slots, params.bucket_size);
  if (params.root_slots() + kMaxHeight * params.bucket_size > kMostSelectionSlots)
    return fail(Errc::usage, "buckets of {} slots make paths of more than {}", params.bucket_size,
                kMostSelectionSlots);
  return {};
}

}  // namespace

Status check_params(const VolumeParams& params) {
  if (params.kind() == SchemeKind::s3oram) S3O_TRY(params.scheme.check());
  if (params.block_size < kLeastBlockSize || params.block_size > kMostBlockSize)
    return fail(Errc::usage, "a block size of {} is not between {} bytes and 4 MiB",
                params.block_size, kLeastBlockSize);
  if (params.evict_every < 1 || params.evict_every > kMostEvictEvery)
    return fail(Errc::usage, "evictions must come every 1 to {} accesses, not {}", kMostEvictEvery,
                params.evict_every);
  if (params.bucket_size < 1 || params.bucket_size > kMostBucketSize)
    return fail(Errc::usage,
                "a bucket has 1 to {} slots, not {}; fewer accesses between evictions need "
                "fewer slots",
                kMostBucketSize, params.bucket_size);
  if (params.root_slots() > kMostRootSlots)
    return fail(Errc::usage, "a root of {} slots has more than {}", params.root_slots(),
                kMostRootSlots);
  if (params.first_height < 1 || params.first_height > kMaxHeight)
    return fail(Errc::usage, "height {} is outside 1 to {}", params.first_height, kMaxHeight);
  if (params.privacy != Privacy::information_theoretic && params.privacy != Privacy::computational)
    return fail(Errc::usage, "an unknown kind of privacy");
  switch (params.evictor) {
    case Evictor::matrix:
      return check_matrix(params);
    case Evictor::shuffle:
      return check_shuffle(params);
    case Evictor::polynomial:
      return check_ring(params);
    case Evictor::selection:
      return check_mirror(params);
  }
  return fail(Errc::usage, "an unknown evictor");
}

std::string difference(const VolumeParams& params, const VolumeParams& right) {
  std::string first;
  const auto compare = [&](const char* name, auto is, auto should) {
    if (first.empty() && is != should) first = fmt::format("{} {} instead of {}", name, is, should);
  };
  compare("scheme", name_of(kSchemes, params.kind()), name_of(kSchemes, right.kind()));
  compare("servers", params.scheme.servers, right.scheme.servers);
  compare("privacy", params.scheme.threshold, right.scheme.threshold);
  compare("block_size", params.block_size, right.block_size);
  compare("bucket_size", params.bucket_size, right.bucket_size);
  compare("evict_every", params.evict_every, right.evict_every);
  compare("evictor", name_of(kEvictors, params.evictor), name_of(kEvictors, right.evictor));
  compare("stash_slots", params.stash_slots, right.stash_slots);
  compare("sharing", name_of(kPrivacies, params.privacy), name_of(kPrivacies, right.privacy));
  compare("first_height", params.first_height, right.first_height);
  compare("top_levels", params.top_levels, right.top_levels);
  return first;
}

}  // namespace s3oram
