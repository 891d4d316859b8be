// Finds out which of several shares are wrong, if there are enough of them. The values of a
// polynomial of degree below k at n points are a word of a Reed-Solomon code, in which e errors can
// be corrected if n >= k + 2e. This needs no key and no digest, and never fails by chance.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "oramcore/base/bytes.h"

namespace s3oram {

/// Returns whether the wrong ones among this many shares can be found, if at most `most` are wrong
/// and any `enough` of the right ones determine the others.
constexpr bool can_find_wrong_shares(std::size_t shares, std::size_t enough, std::size_t most) {
  return shares >= enough + 2 * most;
}

/// Gao's decoder (S. Gao, "A new algorithm for decoding Reed-Solomon codes", 2003). Returns the
/// indices of the values that must change so that all of them belong to one polynomial of degree
/// below `enough`, with values[i] at points[i]; the points must be distinct. Returns std::nullopt
/// if more than (values - enough) / 2 values would have to change.
std::optional<std::vector<std::size_t>> wrong_values(std::size_t enough, ByteSpan points,
                                                     ByteSpan values);

/// Does the same for vectors of equal length: returns the indices of those that are wrong in any
/// place, in ascending order. Requires can_find_wrong_shares(). Exact if at most `most` are wrong.
/// If more are wrong, it returns std::nullopt or other shares, and those who made the wrong ones
/// may influence which.
std::optional<std::vector<std::size_t>> wrong_shares(std::size_t enough, ByteSpan points,
                                                     std::span<const ByteSpan> shares,
                                                     std::size_t most);

}  // namespace s3oram
