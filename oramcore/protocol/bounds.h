// Computes how large buckets and the stash part must be, so that they do not overflow.
#pragma once

#include <cstdint>

namespace s3oram {

/// The security level of the default bucket sizes: the probability of an overflow, which servers
/// could see, is at most 2^-80 for each push.
constexpr unsigned kOverflowBits = 80;

/// Returns the smallest Z with P[Poisson(A) > Z] <= 2^-bits. Triplet eviction pushes level by
/// level. So before a bucket is itself pushed, it holds its own blocks and those from above: A
/// blocks on average (Lemma 4.1 of the paper counts A/2, which is too few).
std::uint16_t min_bucket_size(unsigned evict_every, unsigned bits = kOverflowBits);

/// For shuffle evictions: returns how many slots the root's stash part needs, in whole buckets, so
/// that each eviction overflows with a probability of at most 2^-bits. The slots are Z for the
/// root's own bucket, plus Ring ORAM's bound on its stash (Ren et al., USENIX Security 2015; by
/// Lemma 1 there, or the smaller number in its table for bits = 80). Returns 0 if there is no bound
/// for this Z and A.
std::uint16_t min_stash_slots(unsigned bucket_size, unsigned evict_every,
                              unsigned bits = kOverflowBits);

}  // namespace s3oram
