// Common to the sharing tests: the schemes that they try, and the servers' points.
#pragma once

#include "oramcore/sharing/shamir.h"

namespace s3oram {

/// (t, l): the smallest scheme, more servers than needed, and larger privacy thresholds.
inline constexpr Scheme kSchemes[] = {{1, 3}, {1, 4}, {2, 5}, {2, 7}, {3, 7}};

/// Returns the points of servers first, first + 1, ...
inline Bytes points_from(std::size_t first, std::size_t count) {
  Bytes points;
  for (std::size_t i = 0; i < count; ++i) points.push_back(static_cast<std::uint8_t>(first + i));
  return points;
}

/// Recovers from the shares of the servers at `points`.
inline Bytes recover_from(const std::vector<Bytes>& shares, ByteSpan points) {
  std::vector<ByteSpan> views;
  for (const std::uint8_t x : points) views.push_back(shares[x - 1]);
  return recover(points, views);
}

inline Bytes random_bytes(std::size_t size, Random& random) {
  Bytes bytes(size);
  random.fill(bytes);
  return bytes;
}

/// Returns every choice of `count` points out of 1..servers.
inline std::vector<Bytes> choices(std::size_t servers, std::size_t count) {
  std::vector<Bytes> result;
  for (unsigned set = 0; set < 1u << servers; ++set) {
    Bytes points;
    for (std::size_t i = 0; i < servers; ++i)
      if (set >> i & 1) points.push_back(static_cast<std::uint8_t>(i + 1));
    if (points.size() == count) result.push_back(points);
  }
  return result;
}

}  // namespace s3oram
