// How large a bucket must be.
#pragma once

#include <cstdint>

namespace s3oram {

/// The security level of the default bucket sizes: an overflow, which others could see, has a
/// probability of at most 2^-80 for each push.
constexpr unsigned kOverflowBits = 80;

/// The smallest Z with P[Poisson(A) > Z] <= 2^-bits. Triplet eviction pushes level by level, so a
/// bucket holds its own blocks and what comes from above before it is pushed itself: A blocks in
/// the mean (Lemma 4.1 of the paper counts A/2, which is too few).
std::uint16_t min_bucket_size(unsigned evict_every, unsigned bits = kOverflowBits);

/// Shuffle evictions: how many slots the root's stash part needs, in whole buckets, to overflow
/// with a probability of at most 2^-bits for each eviction. That is Z for the root's own bucket,
/// and Ring ORAM's bound on its stash (Ren et al., USENIX Security 2015; by Lemma 1 there, or the
/// smaller number of its table for bits = 80). 0: these Z and A have no bound.
std::uint16_t min_stash_slots(unsigned bucket_size, unsigned evict_every,
                              unsigned bits = kOverflowBits);

}  // namespace s3oram
