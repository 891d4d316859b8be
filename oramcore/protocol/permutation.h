// Permutations of the slots of a path: slot i goes to to[i].
#pragma once

#include <cstdint>
#include <vector>

#include "oramcore/base/random.h"

namespace s3oram {

using Permutation = std::vector<std::uint32_t>;

bool is_permutation(const Permutation& to);
/// Returns a uniformly random permutation, which is the same on every machine for the same stream.
Permutation random_permutation(std::size_t size, Random& random);
Permutation inverse(const Permutation& to);
/// Returns `first` followed by `second`.
Permutation then(const Permutation& first, const Permutation& second);

}  // namespace s3oram
