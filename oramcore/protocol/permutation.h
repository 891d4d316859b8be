// Permutations of the slots of a path: to[i] is where slot i goes.
#pragma once

#include <cstdint>
#include <vector>

#include "oramcore/base/random.h"

namespace s3oram {

using Permutation = std::vector<std::uint32_t>;

bool is_permutation(const Permutation& to);
/// Uniformly random, and the same for the same stream on every machine.
Permutation random_permutation(std::size_t size, Random& random);
Permutation inverse(const Permutation& to);
/// `first`, then `second`.
Permutation then(const Permutation& first, const Permutation& second);

}  // namespace s3oram
