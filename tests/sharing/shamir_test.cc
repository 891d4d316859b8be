// Tests that enough shares give the secret back, that too few do not, and their arithmetic.
#include <NTL/GF2EX.h>
#include <gtest/gtest.h>

#include "oramcore/field/gf256.h"
#include "tests/field/oracle.h"
#include "tests/sharing/parties.h"

namespace s3oram {
namespace {

class Shamir : public testing::TestWithParam<Scheme> {
 protected:
  const Scheme scheme_ = GetParam();
  Prg random_{Seed{}, as_bytes("shamir_test")};
};

TEST_P(Shamir, AnyEnoughSharesGiveTheSecretBack) {
  for (const std::size_t size : {0, 1, 63, 64, 65, 4096, 8192, 8193, 20000}) {
    const Bytes secret = random_bytes(size, random_);
    const auto shares = create_shares(scheme_, secret, random_);
    ASSERT_EQ(shares.size(), scheme_.servers);
    for (std::size_t count = scheme_.threshold + 1u; count <= scheme_.servers; ++count)
      for (const Bytes& points : choices(scheme_.servers, count))
        ASSERT_EQ(recover_from(shares, points), secret) << "size " << size;
  }
}

TEST_P(Shamir, TooFewSharesDoNot) {
  const Bytes secret = random_bytes(100, random_);
  const auto shares = create_shares(scheme_, secret, random_);
  for (const Bytes& points : choices(scheme_.servers, scheme_.threshold))
    EXPECT_NE(recover_from(shares, points), secret);
}

TEST_P(Shamir, SharesLieOnNtlsPolynomialOfDegreeT) {
  const Bytes secret = random_bytes(50, random_);
  const auto shares = create_shares(scheme_, secret, random_);
  const oracle::Field field;
  NTL::Vec<NTL::GF2E> xs, ys;
  xs.SetLength(scheme_.servers);
  ys.SetLength(scheme_.servers);
  bool full_degree = false;
  for (std::size_t at = 0; at < secret.size(); ++at) {
    for (long i = 0; i < scheme_.servers; ++i) {
      xs[i] = oracle::element(static_cast<std::uint8_t>(i + 1));
      ys[i] = oracle::element(shares[static_cast<std::size_t>(i)][at]);
    }
    const auto polynomial = NTL::interpolate(xs, ys);
    ASSERT_LE(NTL::deg(polynomial), scheme_.threshold);
    full_degree |= NTL::deg(polynomial) == scheme_.threshold;
    ASSERT_EQ(oracle::byte(NTL::ConstTerm(polynomial)), secret[at]);
  }
  EXPECT_TRUE(full_degree);
}

TEST_P(Shamir, SumOfSharesIsAShareOfTheSum) {
  const Bytes a = random_bytes(300, random_);
  const Bytes b = random_bytes(300, random_);
  auto shares = create_shares(scheme_, a, random_);
  const auto others = create_shares(scheme_, b, random_);
  for (std::size_t i = 0; i < shares.size(); ++i) gf::multiply_add(7, others[i], shares[i]);
  Bytes expected = a;
  oracle::multiply_add(7, b, expected);
  EXPECT_EQ(recover_from(shares, points_from(1, scheme_.threshold + 1u)), expected);
}

TEST_P(Shamir, WritingIntoByteSpansIsTheSameAndTouchesNothingElse) {
  const Bytes secret = random_bytes(9000, random_);
  Prg one(Seed{}, as_bytes("same"));
  Prg two(Seed{}, as_bytes("same"));
  const auto expected = create_shares(scheme_, secret, one);
  constexpr std::size_t kAround = 5;
  std::vector<Bytes> stores(scheme_.servers, Bytes(secret.size() + 2 * kAround, 0xee));
  std::vector<MutableByteSpan> views;
  for (Bytes& store : stores)
    views.push_back(MutableByteSpan(store).subspan(kAround, secret.size()));
  create_shares(scheme_, secret, two, views);
  const Bytes untouched(kAround, 0xee);
  for (std::size_t i = 0; i < stores.size(); ++i) {
    EXPECT_EQ(Bytes(views[i].begin(), views[i].end()), expected[i]);
    EXPECT_EQ(Bytes(stores[i].begin(), stores[i].begin() + kAround), untouched);
    EXPECT_EQ(Bytes(stores[i].end() - kAround, stores[i].end()), untouched);
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Shamir, testing::ValuesIn(kSchemes), [](const auto& test) {
  return "t" + std::to_string(test.param.threshold) + "l" + std::to_string(test.param.servers);
});

TEST(SchemeNumbers, AreChecked) {
  for (const Scheme& scheme : kSchemes) EXPECT_TRUE(scheme.check());
  EXPECT_TRUE((Scheme{126, 254}.check()));
  for (const Scheme& scheme :
       {Scheme{0, 3}, Scheme{1, 2}, Scheme{2, 4}, Scheme{127, 255}, Scheme{255, 255}}) {
    const auto status = scheme.check();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::usage);
    EXPECT_FALSE(status.error().message.empty());
  }
}

}  // namespace
}  // namespace s3oram
