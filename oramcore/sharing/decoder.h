// Finds out which of several shares are wrong, where there are more than enough of them to tell:
// the values of a polynomial of degree below k at n points are a word of a Reed-Solomon code, of
// which e errors can be corrected if n >= k + 2e. No key, no digest and no chance is involved.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "oramcore/base/bytes.h"

namespace s3oram {

/// Whether the wrong ones among so many shares can be found, if `most` or fewer are wrong and any
/// `enough` of the right ones give the others.
constexpr bool can_find_wrong_shares(std::size_t shares, std::size_t enough, std::size_t most) {
  return shares >= enough + 2 * most;
}

/// Gao's decoder (S. Gao, "A new algorithm for decoding Reed-Solomon codes", 2003). Returns the
/// indices of the values that must change for all of them to be those of one polynomial of degree
/// below `enough`, values[i] at points[i]; points are distinct. Returns nothing if more than
/// (values - enough) / 2 would have to.
std::optional<std::vector<std::size_t>> wrong_values(std::size_t enough, ByteSpan points,
                                                     ByteSpan values);

/// The same of vectors, which are equally long: returns the indices of those that are wrong in any
/// place, in order. Requires can_find_wrong_shares(). Exact if `most` or fewer are wrong. If more
/// are, returns nothing, or other shares, as those who made them wish.
std::optional<std::vector<std::size_t>> wrong_shares(std::size_t enough, ByteSpan points,
                                                     std::span<const ByteSpan> shares,
                                                     std::size_t most);

}  // namespace s3oram
