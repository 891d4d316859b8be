// Tests how many tiles of an eviction are under way beside accesses.
#include <gtest/gtest.h>

#include "serverd/oram/eviction.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;

std::size_t at_once(std::uint32_t begun, std::uint64_t accesses, Duration quiet,
                    std::optional<Duration> quickest = {}) {
  return tiles_at_once({.begun = begun,
                        .tiles = 10,
                        .accesses = accesses,
                        .evict_every = 20,
                        .quiet = quiet,
                        .quickest = quickest});
}

TEST(EvictionPace, OneTileBesideAccessesAndMoreAlone) {
  for (const Duration quiet : {0ms, 10ms, 50ms}) EXPECT_EQ(at_once(5, 5, quiet), 1u);
  EXPECT_EQ(at_once(5, 5, 1s), 4u);
}

TEST(EvictionPace, AnEvictorMayHaveMoreBesideAccesses) {
  EvictionPace pace{.begun = 5,
                    .tiles = 10,
                    .accesses = 10,
                    .evict_every = 20,
                    .quiet = 10ms,
                    .quickest = {},
                    .beside_accesses = 2};
  EXPECT_EQ(tiles_at_once(pace), 2u);
  pace.accesses = 11;
  EXPECT_EQ(tiles_at_once(pace), 4u) << "it is late";
}

TEST(EvictionPace, NoneWhileItIsTwiceAsFarAsAccessesThatFollowEachOther) {
  EXPECT_EQ(at_once(0, 0, 0ms), 1u);  // begins immediately
  for (std::uint32_t begun = 1; begun < 10; ++begun) {
    EXPECT_EQ(at_once(begun, begun - 1, 2ms), 0u);
    EXPECT_EQ(at_once(begun, begun, 2ms), 1u);
  }
  EXPECT_EQ(at_once(5, 4, 5ms), 1u);
  EXPECT_EQ(at_once(5, 4, 1s), 4u);
  EXPECT_EQ(at_once(5, 4, 2ms, 7ms), 0u);
}

TEST(EvictionPace, MoreOnceAccessesAreAhead) {
  for (std::uint32_t begun = 1; begun < 10; ++begun) {
    EXPECT_EQ(at_once(begun, 2u * begun, 0ms), 1u);
    EXPECT_EQ(at_once(begun, 2u * begun + 1, 0ms), 4u);
  }
}

TEST(EvictionPace, MoreTheFartherTheOthersAre) {
  EXPECT_EQ(at_once(5, 5, 0ms, 7ms), 1u);
  EXPECT_EQ(at_once(5, 2, 0ms, 40ms), 6u);
  EXPECT_EQ(at_once(5, 2, 0ms, 10s), 16u);
}

}  // namespace
}  // namespace s3oram
