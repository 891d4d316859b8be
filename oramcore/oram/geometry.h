// The binary tree of buckets, expressed as arithmetic on numbers (section 3.1 of the paper).
//
// A leaf is 40 random bits, of which a tree of height H uses the lowest H: bit h - 1 is the edge
// taken from level h - 1 to level h. So the bucket at level h of the path to a leaf is 2^h + (leaf
// mod 2^h), and growing the tree by a level changes no leaf. The eviction path of eviction e is the
// path to the leaf e. Its lowest bits change fastest, which is exactly the paper's reverse
// lexicographic order, DigitReverse_2(e mod 2^H) (equation 6).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "oramcore/base/random.h"

namespace s3oram {

using Leaf = std::uint64_t;
using BucketIndex = std::uint64_t;  // the root is 1, the children of (h, p) are (h+1, p | 0/1 << h)

constexpr unsigned kLeafBits = 40;
constexpr unsigned kMaxHeight = 30;
constexpr BucketIndex kRoot = 1;

constexpr BucketIndex bucket_on_path(Leaf leaf, unsigned level) {
  const BucketIndex first = BucketIndex{1} << level;
  return first | (leaf & (first - 1));
}

constexpr unsigned level_of(BucketIndex bucket) {
  return static_cast<unsigned>(std::bit_width(bucket)) - 1;
}

/// Returns the other child of the same parent. Must not be called for the root.
constexpr BucketIndex sibling_of(BucketIndex bucket) {
  return bucket ^ (BucketIndex{1} << (level_of(bucket) - 1));
}

/// Returns the child of `bucket` at `edge`, which is 0 or 1.
constexpr BucketIndex child_of(BucketIndex bucket, unsigned edge) {
  const unsigned level = level_of(bucket);
  const BucketIndex prefix = bucket ^ (BucketIndex{1} << level);
  return (BucketIndex{2} << level) | prefix | (BucketIndex{edge} << level);
}

constexpr std::size_t bucket_count(unsigned height) { return (std::size_t{2} << height) - 1; }

inline Leaf random_leaf(Random& random) { return random.u64() & ((Leaf{1} << kLeafBits) - 1); }

/// Returns how many blocks a tree may hold: N <= A * 2^(H-1) (section 3.1). A tree with N blocks
/// has A/2 blocks in each leaf bucket on average, and A when an eviction reaches it.
constexpr std::uint64_t capacity(unsigned height, unsigned evict_every) {
  return (std::uint64_t{evict_every} << height) / 2;
}

}  // namespace s3oram
