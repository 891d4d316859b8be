// Opaque blocks open to what was sealed, fail if anything was changed, and look random in every
// byte.
#include "oramcore/oram/opaque_sealer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace s3oram {
namespace {

constexpr Seed kKey{1, 2, 3};
constexpr std::size_t kBlock = 48;

class OpaqueSealerTest : public testing::Test {
 protected:
  static OpaqueSealer::SealedLabel label(std::uint8_t value) {
    OpaqueSealer::SealedLabel filled;
    filled.fill(value);
    return filled;
  }
  Prg random_{Seed{7}, as_bytes("opaque sealer")};
  OpaqueSealer sealer_{kKey, random_};
};

TEST_F(OpaqueSealerTest, OpensToWhatWasSealed) {
  const Bytes content(kBlock, 0x5a);
  const Bytes sealed = sealer_.seal(label(3), content);
  ASSERT_EQ(sealed.size(), kBlock + OpaqueSealer::kOverhead);
  const auto opened = sealer_.open(sealed);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->label, label(3));
  EXPECT_EQ(opened->content, content);
}

TEST_F(OpaqueSealerTest, ReadsALabelWithoutItsBlock) {
  Bytes sealed = sealer_.seal(label(9), Bytes(kBlock));
  sealed.resize(OpaqueSealer::kHead);
  const auto read = sealer_.open_label(sealed);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, label(9));
  sealed.pop_back();
  EXPECT_FALSE(sealer_.open_label(sealed));
}

TEST_F(OpaqueSealerTest, RefusesAnyChangedBit) {
  const Bytes sealed = sealer_.seal(label(3), Bytes(kBlock, 1));
  for (std::size_t at = 0; at < sealed.size(); ++at) {
    Bytes changed = sealed;
    changed[at] ^= 0x10;
    EXPECT_FALSE(sealer_.open(changed)) << at;
    EXPECT_EQ(sealer_.open_label(changed).has_value(), at >= OpaqueSealer::kHead) << at;
  }
  EXPECT_FALSE(sealer_.open(ByteSpan(sealed).first(sealed.size() - 1)));
  EXPECT_FALSE(sealer_.open(Bytes(3)));
}

// The head of one block and the rest of another, both intact.
TEST_F(OpaqueSealerTest, BindsABlockToItsLabel) {
  const Bytes one = sealer_.seal(label(1), Bytes(kBlock)),
              two = sealer_.seal(label(2), Bytes(kBlock));
  Bytes mixed = one;
  std::copy(two.begin() + OpaqueSealer::kHead, two.end(), mixed.begin() + OpaqueSealer::kHead);
  EXPECT_FALSE(sealer_.open(mixed));
}

TEST_F(OpaqueSealerTest, AnotherKeyOpensNothing) {
  const Bytes sealed = sealer_.seal(label(3), Bytes(kBlock));
  const OpaqueSealer other(Seed{1, 2, 4}, random_);
  EXPECT_FALSE(other.open(sealed));
  EXPECT_FALSE(other.open_label(sealed));
}

// Chi-square over the values in each column, with the same labels and contents throughout. A
// counter, a plain number, or a constant would show in its column.
TEST_F(OpaqueSealerTest, EveryByteLooksRandom) {
  constexpr std::size_t kSealings = 5120, kValues = 16;
  constexpr double kMost = 15 + 6 * 5.48;  // 15 degrees of freedom, plus six standard deviations
  std::vector<std::array<unsigned, kValues>> low(kBlock + OpaqueSealer::kOverhead),
      high(low.size());
  for (std::size_t i = 0; i < kSealings; ++i) {
    const Bytes sealed = sealer_.seal(label(0), Bytes(kBlock));
    for (std::size_t at = 0; at < sealed.size(); ++at) {
      ++low[at][sealed[at] % kValues];
      ++high[at][sealed[at] / kValues];
    }
  }
  const auto chi_square = [](const std::array<unsigned, kValues>& counts) {
    constexpr double kMean = double{kSealings} / kValues;
    double sum = 0;
    for (const unsigned count : counts) sum += (count - kMean) * (count - kMean) / kMean;
    return sum;
  };
  for (std::size_t at = 0; at < low.size(); ++at) {
    EXPECT_LT(chi_square(low[at]), kMost) << at;
    EXPECT_LT(chi_square(high[at]), kMost) << at;
  }
}

}  // namespace
}  // namespace s3oram
