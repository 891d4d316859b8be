// Tests that digests of consistent shares are consistent, and that a wrong share shows.
#include "oramcore/sharing/digest.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

class Digest : public testing::TestWithParam<std::size_t> {
 protected:
  Digest() : random_(Seed{7}, as_bytes("digest test")), digest_(random_.seed(), GetParam()) {}
  Bytes random_bytes() {
    Bytes bytes(GetParam());
    random_.fill(bytes);
    return bytes;
  }
  bool on_a_line(const std::vector<Bytes>& shares) const {
    std::vector<Bytes> digests;
    for (const Bytes& share : shares) digests.push_back(digest_.of(share));
    const std::vector<ByteSpan> first(digests.begin(), digests.begin() + 2);
    return recover_at(3, Bytes{1, 2}, first) == digests[2];
  }

  Prg random_;
  const ShareDigest digest_;
};

TEST_P(Digest, OfSharesThatFitTogetherFitTogether) {
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(on_a_line(create_shares(Scheme{1, 3}, random_bytes(), random_)));
}

TEST_P(Digest, OneWrongByteShows) {
  const auto shares = create_shares(Scheme{1, 3}, random_bytes(), random_);
  for (std::size_t at = 0; at < GetParam(); at += 1 + at / 40) {
    auto wrong = shares;
    wrong[at % 3][at] ^= static_cast<std::uint8_t>(1 + at % 255);
    EXPECT_FALSE(on_a_line(wrong)) << "byte " << at;
  }
}

TEST_P(Digest, AnotherShareShows) {
  auto shares = create_shares(Scheme{1, 3}, random_bytes(), random_);
  shares[1] = random_bytes();
  EXPECT_FALSE(on_a_line(shares));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Digest, testing::Values(592, 1024, 1023, 4176, 65616));

}  // namespace
}  // namespace s3oram
