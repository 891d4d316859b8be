// Tests of the digest that marks the shares of a bucket.
#include "oramcore/sharing/share_mark.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

class ShareMarks : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::size_t kSlots = 5;

  ShareMarks() {
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      shares_.emplace_back(GetParam());
      if (slot != 3) random_.fill(shares_.back());  // one slot is empty
    }
  }
  Mark mark(const Seed& key) const {
    std::vector<const std::uint8_t*> slots;
    for (const Bytes& share : shares_) slots.push_back(share.data());
    return ShareMark(key, GetParam()).of(slots);
  }

  Prg random_{Seed{9}, as_bytes("share mark test")};
  const Seed key_ = random_.seed();
  std::vector<Bytes> shares_;
};

TEST_P(ShareMarks, OneBitOfAnySlotShows) {
  const Mark right = mark(key_);
  EXPECT_EQ(mark(key_), right);
  for (Bytes& share : shares_)
    for (std::size_t at = 0; at < share.size(); at += 1 + at / 20) {
      share[at] ^= 1 << at % 8;
      EXPECT_NE(mark(key_), right) << "byte " << at;
      share[at] ^= 1 << at % 8;
    }
  EXPECT_EQ(mark(key_), right);
}

TEST_P(ShareMarks, SlotsThatChangePlacesShow) {
  const Mark right = mark(key_);
  std::swap(shares_[1], shares_[4]);
  EXPECT_NE(mark(key_), right);
}

TEST_P(ShareMarks, EachKeyGivesAnotherMark) { EXPECT_NE(mark(key_), mark(random_.seed())); }

TEST_P(ShareMarks, AnAbsentShareIsOneOfZeros) {
  const Mark right = mark(key_);
  std::vector<const std::uint8_t*> slots;
  for (const Bytes& share : shares_) slots.push_back(share.data());
  slots[3] = nullptr;
  EXPECT_EQ(ShareMark(key_, GetParam()).of(slots), right);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShareMarks, testing::Values(576, 1023, 4160));

}  // namespace
}  // namespace s3oram
