// Tests that sealed blocks open unchanged or not at all, and show nothing of their content.
#include "oramcore/schemes/s3oram/seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/harness/older_seal.h"

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
  static void expect_corrupt(const Sealer& sealer, ByteSpan slot, std::size_t at) {
    const auto opened = sealer.open(slot);
    ASSERT_FALSE(opened) << "byte " << at;
    ASSERT_EQ(opened.error().code, Errc::corrupt);
  }

  static Label label(std::uint64_t block, std::uint64_t version) {
    return {.block = block, .version = version, .leaf = {}};
  }
  static void expect_same(const Label& found, const Label& expected) {
    EXPECT_EQ(found.block, expected.block);
    EXPECT_EQ(found.version, expected.version);
    EXPECT_EQ(found.leaf, expected.leaf);
    EXPECT_EQ(found.backup, expected.backup);
    EXPECT_EQ(found.root_slot, expected.root_slot);
  }
  static constexpr Label kSome{
      .block = 0x123456789, .version = 77, .leaf = 0xfedcba9876, .backup = true};

  Prg random_{Seed{}, as_bytes("seal")};
  Sealer sealer_{key(1), random_};
};

TEST_F(SealTest, OpensWhatItSealed) {
  for (const std::size_t size : {0u, 1u, 64u, 4096u}) {
    Bytes content(size);
    random_.fill(content);
    const Bytes slot = sealer_.seal(kSome, content);
    EXPECT_EQ(slot.size(), size + VolumeParams::kSealOverhead);
    const auto opened = sealer_.open(slot);
    ASSERT_TRUE(opened);
    expect_same(opened->label, kSome);
    EXPECT_EQ(opened->content, content);
  }
}

TEST_F(SealTest, AnotherSealerWithTheKeyOpensIt) {
  const Bytes slot = sealer_.seal(label(5, 6), Bytes(100, 7));
  Sealer again(key(1), random_);
  EXPECT_TRUE(again.open(slot));
  Sealer stranger(key(2), random_);
  EXPECT_FALSE(stranger.open(slot));
}

TEST_F(SealTest, NoticesEveryFlippedBit) {
  Bytes slot = sealer_.seal(kSome, Bytes(100, 7));
  for (std::size_t bit = 0; bit < slot.size() * 8; ++bit) {
    const auto mask = static_cast<std::uint8_t>(1 << bit % 8);
    slot[bit / 8] ^= mask;
    expect_corrupt(sealer_, slot, bit / 8);
    slot[bit / 8] ^= mask;
  }
  EXPECT_TRUE(sealer_.open(slot));
}

// Without a leaf the last word is zero, as older versions wrote it; they refuse any other.
TEST_F(SealTest, WritesTheLabelWhereItIsRead) {
  for (const Label& each : {label(5, 6), kSome, Label{.block = 1, .version = 2, .leaf = 0},
                            Label{.block = 1, .version = 2, .leaf = 3, .root_slot = 0xffff}}) {
    const Bytes slot = sealer_.seal(each, Bytes(100, 7));
    const auto read = read_label(label_bytes(slot));
    ASSERT_TRUE(read);
    expect_same(*read, each);
    EXPECT_TRUE(read->holds_block());
    EXPECT_EQ(std::all_of(slot.end() - 8, slot.end(), [](std::uint8_t b) { return b == 0; }),
              !each.leaf);
  }
  EXPECT_FALSE(read_label(LabelBytes{})->holds_block());
  EXPECT_FALSE(read_label(label_bytes(sealer_.seal({}, Bytes(100))))->holds_block());
}

TEST_F(SealTest, ReadsNoLabelThatNoClientWrites) {
  const auto word = [](std::uint64_t last) {
    LabelBytes bytes{1};
    std::memcpy(bytes.data() + kLabelFront, &last, kLabelBack);
    return read_label(bytes);
  };
  EXPECT_TRUE(word(kHasLeaf | 5));
  EXPECT_EQ(word(kHasLeaf | kHasRootSlot | std::uint64_t{7} << 40 | 5)->root_slot, 7);
  EXPECT_FALSE(word(kHasLeaf)->root_slot);
  EXPECT_FALSE(word(5)) << "no leaf";
  EXPECT_FALSE(word(kHasRootSlot | 5)) << "no leaf";
  EXPECT_FALSE(word(kHasLeaf | std::uint64_t{7} << 40)) << "no mark of a root slot";
  EXPECT_FALSE(word(kHasLeaf | kHasRootSlot | std::uint64_t{1} << 56)) << "no such slot";
}

// The last word was not sealed with the block, and may be altered, but not into one that no client
// writes.
TEST_F(SealTest, OpensWhatOlderVersionsSealed) {
  const Bytes content(100, 7);
  Bytes slot = sealer_.seal(kSome, content);
  test::bind_as_format_3(key(1), content, slot);
  const auto opened = sealer_.open(slot);
  ASSERT_TRUE(opened);
  expect_same(opened->label, kSome);
  EXPECT_EQ(opened->content, content);
  for (std::size_t bit = 0; bit < 64; ++bit) {
    Bytes altered = slot;
    altered[altered.size() - 8 + bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    const bool of_the_leaf = bit < kLeafBits;
    EXPECT_EQ(sealer_.open(altered).has_value(), of_the_leaf || bit == 63) << bit;
  }
}

TEST_F(SealTest, NoticesOtherLengths) {
  const Bytes slot = sealer_.seal(label(5, 6), Bytes(100, 7));
  for (std::size_t size = 0; size < slot.size(); ++size)
    expect_corrupt(sealer_, ByteSpan(slot).first(size), size);
  Bytes longer = slot;
  longer.push_back(0);
  expect_corrupt(sealer_, longer, longer.size());
  expect_corrupt(sealer_, Bytes(slot.size()), 0);
}

// A server cannot pass off a block as another block, or as another version of it.
TEST_F(SealTest, BindsTheNumberAndTheVersion) {
  const Bytes content(100, 7);
  const Bytes one = sealer_.seal(label(5, 6), content);
  for (const Bytes& other :
       {sealer_.seal(label(8, 6), content), sealer_.seal(label(5, 9), content)}) {
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
      ASSERT_TRUE(nonces.insert(nonce_of(sealer.seal(label(1, 1), Bytes(8)))).second);
  }
}

TEST_F(SealTest, ShowsNothingOfTheContent) {
  const Bytes content(64, 'x');
  const Bytes first = sealer_.seal(label(1, 1), content),
              second = sealer_.seal(label(1, 1), content);
  std::size_t equal = 0;
  for (std::size_t i = kNonceAt + kNonceSize; i < kNonceAt + kNonceSize + 80; ++i)
    equal += first[i] == second[i];
  EXPECT_LE(equal, 8u);
  EXPECT_EQ(std::search(first.begin(), first.end(), content.begin(), content.begin() + 4),
            first.end());
}

}  // namespace
}  // namespace s3oram
