// Draws, inverts and composes permutations.
#include "oramcore/protocol/permutation.h"

#include <numeric>

namespace s3oram {
namespace {

/// Returns a uniform number below `bound`. Draws again if a number falls into the last, incomplete
/// run.
std::uint64_t below(std::uint64_t bound, Random& random) {
  const std::uint64_t most = ~std::uint64_t{0} - ~std::uint64_t{0} % bound;
  for (;;) {
    const std::uint64_t drawn = random.u64();
    if (drawn < most) return drawn % bound;
  }
}

}  // namespace

bool is_permutation(const Permutation& to) {
  std::vector<bool> taken(to.size(), false);
  for (const std::uint32_t at : to) {
    if (at >= to.size() || taken[at]) return false;
    taken[at] = true;
  }
  return true;
}

Permutation random_permutation(std::size_t size, Random& random) {
  Permutation to(size);
  std::iota(to.begin(), to.end(), 0u);
  for (std::size_t i = size; i > 1; --i) std::swap(to[i - 1], to[below(i, random)]);
  return to;
}

Permutation inverse(const Permutation& to) {
  Permutation from(to.size());
  for (std::uint32_t i = 0; i < to.size(); ++i) from[to[i]] = i;
  return from;
}

Permutation then(const Permutation& first, const Permutation& second) {
  Permutation both(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) both[i] = second[first[i]];
  return both;
}

}  // namespace s3oram
