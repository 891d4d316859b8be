// The random streams of a shuffle. Everyone with the same seed draws the same numbers from it. Each
// tile of columns has its own stream, so that tiles can be processed in any order.
#pragma once

#include <string_view>
#include <vector>

#include "oramcore/field/gf128.h"
#include "oramcore/protocol/messages.h"

namespace s3oram {

/// An attempt at an eviction.
struct ShuffleAttempt {
  std::uint64_t epoch = 0;
  EvictionId id;
};

/// The purposes of seeds (docs/protocol.md). The purpose is part of the stream's key.
namespace shuffle_streams {
inline constexpr std::string_view kFirstMask = "phase 0", kSecondMask = "phase 1",
                                  kLineOf1 = "line of 1", kLineOf3 = "line of 3",
                                  kDigest = "hop digest", kWeights = "share weights",
                                  kAudit = "share audit";
}  // namespace shuffle_streams

inline Prg shuffle_stream(const Seed& seed, std::string_view purpose, const ShuffleAttempt& attempt,
                          std::uint32_t tile) {
  Writer context;
  context(as_bytes(purpose), attempt.epoch, attempt.id.eviction, attempt.id.attempt, tile);
  return Prg(seed, context.take());
}

/// Returns the weight of each row of the path in what roles 1 and 2 report about the shares of role
/// 3. Only these two and the client have the seed (check_3).
inline std::vector<gf128::Element> share_weights(const Seed& seed, const ShuffleAttempt& attempt,
                                                 std::size_t rows) {
  Prg stream = shuffle_stream(seed, shuffle_streams::kWeights, attempt, 0);
  std::vector<gf128::Element> weights(rows);
  std::array<std::uint8_t, 16> bytes;
  for (gf128::Element& weight : weights) {
    stream.fill(bytes);
    weight = gf128::from_bytes(bytes);
  }
  return weights;
}

}  // namespace s3oram
