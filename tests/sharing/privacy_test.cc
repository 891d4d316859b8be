// Perfect privacy, by counting: over all values of the randomness, the view of t servers takes
// every value exactly once, whatever the secret.
#include <gtest/gtest.h>

#include "tests/sharing/parties.h"

namespace s3oram {
namespace {

/// Returns these bytes, in order, and no more.
class Given final : public Random {
 public:
  explicit Given(Bytes bytes) : bytes_(std::move(bytes)) {}
  void fill(MutableByteSpan out) override {
    for (auto& byte : out) byte = bytes_.at(next_++);
  }
  bool used_up() const { return next_ == bytes_.size(); }

 private:
  Bytes bytes_;
  std::size_t next_ = 0;
};

TEST(Privacy, OneShareTellsNothingOfAByte) {
  for (const Scheme& scheme : {Scheme{1, 3}, Scheme{1, 4}}) {
    for (unsigned secret = 0; secret < 256; ++secret) {
      std::vector<std::vector<int>> seen(scheme.servers, std::vector<int>(256));
      for (unsigned r = 0; r < 256; ++r) {
        Given random({static_cast<std::uint8_t>(r)});
        const auto shares = create_shares(scheme, Bytes{static_cast<std::uint8_t>(secret)}, random);
        ASSERT_TRUE(random.used_up());
        for (std::size_t i = 0; i < scheme.servers; ++i) ++seen[i][shares[i][0]];
      }
      for (const auto& counts : seen) ASSERT_EQ(counts, std::vector<int>(256, 1));
    }
  }
}

TEST(Privacy, TwoSharesTellNothingOfAByteWhenTIsTwo) {
  const Scheme scheme{2, 5};
  for (const unsigned secret : {0u, 1u, 0x80u, 0xffu}) {
    std::vector<std::vector<int>> seen(choices(5, 2).size(), std::vector<int>(65536));
    for (unsigned r = 0; r < 65536; ++r) {
      Given random({static_cast<std::uint8_t>(r), static_cast<std::uint8_t>(r >> 8)});
      const auto shares = create_shares(scheme, Bytes{static_cast<std::uint8_t>(secret)}, random);
      std::size_t pair = 0;
      for (std::size_t a = 0; a < 5; ++a)
        for (std::size_t b = a + 1; b < 5; ++b) ++seen[pair++][shares[a][0] * 256u + shares[b][0]];
    }
    for (const auto& counts : seen) ASSERT_EQ(counts, std::vector<int>(65536, 1));
  }
}

// Two elements of a query: one server's part shows neither the index nor that nothing was wanted.
TEST(Privacy, OneServersPartOfAQueryTellsNothingOfTheIndex) {
  const Scheme scheme{1, 3};
  for (const std::size_t index : {0u, 1u, 2u}) {
    std::vector<std::vector<int>> seen(scheme.servers, std::vector<int>(65536));
    for (unsigned r = 0; r < 65536; ++r) {
      Given random({static_cast<std::uint8_t>(r), static_cast<std::uint8_t>(r >> 8)});
      const auto query = create_query(scheme, 2, index, random);
      ASSERT_TRUE(random.used_up());
      for (std::size_t i = 0; i < scheme.servers; ++i) ++seen[i][query[i][0] * 256u + query[i][1]];
    }
    for (const auto& counts : seen) ASSERT_EQ(counts, std::vector<int>(65536, 1));
  }
}

}  // namespace
}  // namespace s3oram
