// Tests the protocols that the scheme builds on shares: multiplication with degree reduction, and
// private retrieval.
#include <gtest/gtest.h>

#include "oramcore/field/gf256.h"
#include "tests/field/oracle.h"
#include "tests/sharing/parties.h"

namespace s3oram {
namespace {

class Protocol : public testing::TestWithParam<Scheme> {
 protected:
  /// Each server multiplies its two shares, which gives shares of degree 2t of the products.
  static std::vector<Bytes> multiply(const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
    std::vector<Bytes> products = a;
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t at = 0; at < a[i].size(); ++at)
        products[i][at] = gf::mul(a[i][at], b[i][at]);
    return products;
  }

  static Bytes plain_product(ByteSpan a, ByteSpan b) {
    Bytes product;
    for (std::size_t at = 0; at < a.size(); ++at) product.push_back(oracle::mul(a[at], b[at]));
    return product;
  }

  const Scheme scheme_ = GetParam();
  Prg random_{Seed{}, as_bytes("protocol_test")};
};

TEST_P(Protocol, ProductsOfSharesRecoverFromAQuorum) {
  const Bytes a = random_bytes(100, random_);
  const Bytes b = random_bytes(100, random_);
  const auto products =
      multiply(create_shares(scheme_, a, random_), create_shares(scheme_, b, random_));
  for (const Bytes& points : choices(scheme_.servers, scheme_.quorum()))
    EXPECT_EQ(recover_from(products, points), plain_product(a, b));
  for (const Bytes& points : choices(scheme_.servers, scheme_.quorum() - 1))
    EXPECT_NE(recover_from(products, points), plain_product(a, b));
}

// Protocol 1 (SMP): a quorum of servers share their products again with all servers. Each server
// adds up what it got, weighted by the Lagrange coefficients, and then holds a share of degree t
// again.
TEST_P(Protocol, SecureMultiplicationReducesTheDegree) {
  const Bytes a = random_bytes(100, random_);
  const Bytes b = random_bytes(100, random_);
  const auto products =
      multiply(create_shares(scheme_, a, random_), create_shares(scheme_, b, random_));
  for (const Bytes& quorum : choices(scheme_.servers, scheme_.quorum())) {
    std::vector<std::vector<Bytes>> sent;  // by server of the quorum, then by receiver
    for (const std::uint8_t x : quorum)
      sent.push_back(create_shares(scheme_, products[x - 1], random_));
    const Bytes weights = lagrange_at_zero(quorum);
    std::vector<Bytes> reduced;
    for (std::size_t to = 0; to < scheme_.servers; ++to) {
      Bytes share(a.size());
      for (std::size_t from = 0; from < quorum.size(); ++from)
        gf::multiply_add(weights[from], sent[from][to], share);
      reduced.push_back(share);
    }
    for (const Bytes& points : choices(scheme_.servers, scheme_.threshold + 1u))
      EXPECT_EQ(recover_from(reduced, points), plain_product(a, b));
  }
}

// Algorithm 5: the client's query, each server's inner product, the client's recovery.
class Retrieval : public Protocol {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < kRows; ++i) {
      rows_.push_back(random_bytes(kLength, random_));
      shared_.push_back(create_shares(scheme_, rows_.back(), random_));
    }
  }

  std::vector<Bytes> answers(std::size_t index) {
    const auto query = create_query(scheme_, kRows, index, random_);
    std::vector<Bytes> answers(scheme_.servers, Bytes(kLength));
    for (std::size_t server = 0; server < scheme_.servers; ++server) {
      std::vector<const std::uint8_t*> rows;
      for (const auto& shares : shared_) rows.push_back(shares[server].data());
      gf::inner_product(query[server], rows, answers[server]);
    }
    return answers;
  }

  static constexpr std::size_t kRows = 21;
  static constexpr std::size_t kLength = 333;
  std::vector<Bytes> rows_;
  std::vector<std::vector<Bytes>> shared_;  // by row, then by server
};

TEST_P(Retrieval, GivesEveryRow) {
  for (std::size_t index = 0; index < kRows; ++index)
    EXPECT_EQ(recover_from(answers(index), points_from(1, scheme_.quorum())), rows_[index]);
}

TEST_P(Retrieval, OfARowThatIsNotThereGivesZeros) {
  for (const std::size_t index : {kRows, kRows + 1, SIZE_MAX}) {
    const Bytes got = recover_from(answers(index), points_from(1, scheme_.quorum()));
    EXPECT_EQ(got, Bytes(kLength));
  }
}

std::string scheme_name(const testing::TestParamInfo<Scheme>& test) {
  return "t" + std::to_string(test.param.threshold) + "l" + std::to_string(test.param.servers);
}
INSTANTIATE_TEST_SUITE_P(Schemes, Protocol, testing::ValuesIn(kSchemes), scheme_name);
INSTANTIATE_TEST_SUITE_P(Schemes, Retrieval, testing::ValuesIn(kSchemes), scheme_name);

}  // namespace
}  // namespace s3oram
