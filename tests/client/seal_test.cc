#include "oramcore/client/seal.h"

#include <gtest/gtest.h>

#include <set>

namespace s3oram {
namespace {

constexpr std::size_t kNonceAt = 16, kNonceSize = 24;

class SealTest : public testing::Test {
 protected:
  static Seed key(std::uint8_t tag) {
    Seed seed;
    seed.fill(tag);
    return seed;
  }
  static Bytes nonce_of(const Bytes& slot) {
    const auto begin = slot.begin() + kNonceAt;
    return Bytes(begin, begin + kNonceSize);
  }
  static void expect_corrupt(const Sealer& sealer, View slot, std::size_t at) {
    const auto opened = sealer.open(slot);
    ASSERT_FALSE(opened) << "byte " << at;
    ASSERT_EQ(opened.error().code, Errc::corrupt);
  }

  Prg random_{Seed{}, as_view("seal")};
  Sealer sealer_{key(1), random_};
};

TEST_F(SealTest, OpensWhatItSealed) {
  for (const std::size_t size : {0u, 1u, 64u, 4096u}) {
    Bytes content(size);
    random_.fill(content);
    const Bytes slot = sealer_.seal(0x123456789, 77, content);
    EXPECT_EQ(slot.size(), size + VolumeParams::kSealOverhead);
    const auto opened = sealer_.open(slot);
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->block, 0x123456789u);
    EXPECT_EQ(opened->version, 77u);
    EXPECT_EQ(opened->content, content);
  }
}

TEST_F(SealTest, AnotherSealerWithTheKeyOpensIt) {
  const Bytes slot = sealer_.seal(5, 6, Bytes(100, 7));
  Sealer again(key(1), random_);
  EXPECT_TRUE(again.open(slot));
  Sealer stranger(key(2), random_);
  EXPECT_FALSE(stranger.open(slot));
}

TEST_F(SealTest, NoticesEveryFlippedBit) {
  Bytes slot = sealer_.seal(5, 6, Bytes(100, 7));
  for (std::size_t bit = 0; bit < slot.size() * 8; ++bit) {
    const auto mask = static_cast<std::uint8_t>(1 << bit % 8);
    slot[bit / 8] ^= mask;
    expect_corrupt(sealer_, slot, bit / 8);
    slot[bit / 8] ^= mask;
  }
  EXPECT_TRUE(sealer_.open(slot));
}

TEST_F(SealTest, NoticesOtherLengths) {
  const Bytes slot = sealer_.seal(5, 6, Bytes(100, 7));
  for (std::size_t size = 0; size < slot.size(); ++size)
    expect_corrupt(sealer_, View(slot).first(size), size);
  Bytes longer = slot;
  longer.push_back(0);
  expect_corrupt(sealer_, longer, longer.size());
  expect_corrupt(sealer_, Bytes(slot.size()), 0);
}

// A server cannot pass off a block as another one, or as another version.
TEST_F(SealTest, BindsTheNumberAndTheVersion) {
  const Bytes content(100, 7);
  const Bytes one = sealer_.seal(5, 6, content);
  for (const Bytes& other : {sealer_.seal(8, 6, content), sealer_.seal(5, 9, content)}) {
    Bytes mixed = one;
    std::copy_n(other.begin(), kNonceAt, mixed.begin());
    expect_corrupt(sealer_, mixed, 0);
  }
}

TEST_F(SealTest, NoNonceComesTwice) {
  std::set<Bytes> nonces;
  for (int opening = 0; opening < 20; ++opening) {
    Sealer sealer(key(1), random_);
    for (int i = 0; i < 1000; ++i)
      ASSERT_TRUE(nonces.insert(nonce_of(sealer.seal(1, 1, Bytes(8)))).second);
  }
}

TEST_F(SealTest, ShowsNothingOfTheContent) {
  const Bytes content(64, 'x');
  const Bytes first = sealer_.seal(1, 1, content), second = sealer_.seal(1, 1, content);
  std::size_t equal = 0;
  for (std::size_t i = kNonceAt + kNonceSize; i < kNonceAt + kNonceSize + 80; ++i)
    equal += first[i] == second[i];
  EXPECT_LE(equal, 8u);
  EXPECT_EQ(std::search(first.begin(), first.end(), content.begin(), content.begin() + 4),
            first.end());
}

}  // namespace
}  // namespace s3oram
