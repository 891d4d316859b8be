// Tests that streams from seeds are reproducible and pinned, and that system randomness is fresh.
#include "oramcore/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace s3oram {
namespace {

Bytes draw(Random& random, std::size_t size) {
  Bytes bytes(size);
  random.fill(bytes);
  return bytes;
}

Seed seed_of(std::uint8_t first) {
  Seed seed{};
  seed[0] = first;
  return seed;
}

TEST(Prg, PiecesOfAnySizeAreTheSameStream) {
  const Seed seed = seed_of(1);
  constexpr std::size_t kTotal = 10000;
  Prg whole(seed, as_bytes("stream"));
  const Bytes expected = draw(whole, kTotal);
  for (const std::size_t piece : {1, 3, 63, 64, 65, 200, 511, 512, 513, 1000, 4096, 9999}) {
    Prg pieces(seed, as_bytes("stream"));
    Bytes got;
    while (got.size() < kTotal) {
      const Bytes next = draw(pieces, std::min(piece, kTotal - got.size()));
      got.insert(got.end(), next.begin(), next.end());
    }
    EXPECT_EQ(got, expected) << "pieces of " << piece;
  }
}

TEST(Prg, PiecesOfMixedSizesAreTheSameStream) {
  const Seed seed = seed_of(2);
  Prg sizes(seed, as_bytes("sizes"));
  Prg pieces(seed, as_bytes("stream"));
  Bytes got;
  for (int i = 0; i < 200; ++i) {
    const Bytes next = draw(pieces, sizes.u64() % 1300);
    got.insert(got.end(), next.begin(), next.end());
  }
  Prg whole(seed, as_bytes("stream"));
  EXPECT_EQ(draw(whole, got.size()), got);
}

TEST(Prg, AnEmptyPieceChangesNothing) {
  Prg one(seed_of(1), as_bytes("stream"));
  Prg two(seed_of(1), as_bytes("stream"));
  one.fill({});
  EXPECT_EQ(draw(one, 100), draw(two, 100));
  one.fill({});
  EXPECT_EQ(draw(one, 1000), draw(two, 1000));
}

TEST(Prg, SameSeedAndContextGiveTheSameStreamEverywhere) {
  Prg one(seed_of(1), as_bytes("context"));
  Prg two(seed_of(1), as_bytes("context"));
  EXPECT_EQ(draw(one, 1000), draw(two, 1000));
}

// Servers of different versions must draw the same bytes. The expected bytes are those that
// Python's hashlib (BLAKE2b) and `openssl enc -chacha20` compute: 32 from the start, 32 from 1 MiB
// on.
TEST(Prg, TheStreamIsPinned) {
  const Bytes start = {0x62, 0xb3, 0xb4, 0x90, 0x0d, 0x51, 0x18, 0xfb, 0xda, 0xe3, 0x41,
                       0xc5, 0x5b, 0xb5, 0xc1, 0x75, 0x98, 0x78, 0x85, 0x1d, 0x43, 0xe1,
                       0x2b, 0x95, 0xab, 0x09, 0x3a, 0x2f, 0xa7, 0x16, 0xbc, 0x59};
  const Bytes later = {0x2c, 0x74, 0x28, 0x6f, 0xd8, 0xf2, 0x9a, 0xe1, 0x01, 0xef, 0xde,
                       0x2f, 0x65, 0x18, 0xdb, 0xa1, 0x18, 0x76, 0xf0, 0xf5, 0x46, 0x56,
                       0xc1, 0xcf, 0x37, 0x83, 0x27, 0x9f, 0x9d, 0x51, 0xe1, 0x0f};
  Prg prg(seed_of(1), as_bytes("stream"));
  const Bytes stream = draw(prg, (1 << 20) + 32);
  EXPECT_EQ(Bytes(stream.begin(), stream.begin() + 32), start);
  EXPECT_EQ(Bytes(stream.end() - 32, stream.end()), later);
}

TEST(Prg, AnotherSeedOrContextGivesAnotherStream) {
  std::set<Bytes> streams;
  for (const std::uint8_t first : {0, 1, 2})
    for (const char* context : {"", "a", "b", "ab",
                                "a much longer context, of more than a block "
                                "of the hash: it has 128 bytes, and here it "
                                "goes on, and on, and on, and on, and ends."}) {
      Prg prg(seed_of(first), as_bytes(context));
      streams.insert(draw(prg, 32));
    }
  EXPECT_EQ(streams.size(), 15u);
}

TEST(Prg, NothingRepeatsWithinAStream) {
  Prg prg(seed_of(3), as_bytes("long"));
  std::set<std::uint64_t> words;
  for (int i = 0; i < 5000; ++i) words.insert(prg.u64());
  EXPECT_EQ(words.size(), 5000u);
}

TEST(Prg, OverwritesWhatWasThere) {
  Prg one(seed_of(1), as_bytes("context"));
  Prg two(seed_of(1), as_bytes("context"));
  Bytes zeros(1000);
  Bytes ones(1000, 0xff);
  one.fill(zeros);
  two.fill(ones);
  EXPECT_EQ(zeros, ones);
}

TEST(SystemRandom, GivesFreshBytes) {
  SystemRandom random;
  EXPECT_NE(random.seed(), random.seed());
  EXPECT_NE(draw(random, 32), draw(random, 32));
}

}  // namespace
}  // namespace s3oram
