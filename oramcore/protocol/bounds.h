// How large buckets and the stash part must be, so that they do not overflow.
#pragma once

#include <cstdint>

namespace s3oram {

/// The security level of the default bucket sizes: an overflow, which servers could see, has a
/// probability of at most 2^-80 for each push.
constexpr unsigned kOverflowBits = 80;

/// Returns the smallest Z with P[Poisson(A) > Z] <= 2^-bits. Triplet eviction pushes level by
/// level, so before it is pushed itself, a bucket holds its own blocks and those from above: A
/// blocks on average (Lemma 4.1 of the paper counts A/2, which is too few).
std::uint16_t min_bucket_size(unsigned evict_every, unsigned bits = kOverflowBits);

/// For shuffle evictions: returns how many slots the root's stash part needs, in whole buckets, to
/// overflow with a probability of at most 2^-bits for each eviction. These are Z for the root's own
/// bucket, and Ring ORAM's bound on its stash (Ren et al., USENIX Security 2015; by Lemma 1 there,
/// or the smaller number of its table for bits = 80). Returns 0 if these Z and A have no bound.
std::uint16_t min_stash_slots(unsigned bucket_size, unsigned evict_every,
                              unsigned bits = kOverflowBits);

}  // namespace s3oram
