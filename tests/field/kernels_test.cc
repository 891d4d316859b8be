// Compares every kernel of this machine with NTL, on rows after whose end nothing may be touched.
#include <gtest/gtest.h>

#include <string>

#include "oramcore/base/random.h"
#include "oramcore/field/gf256.h"
#include "tests/field/oracle.h"

namespace s3oram::gf {
namespace {

std::vector<Kernel> kernels_here() {
  const Kernel chosen = kernel();
  std::vector<Kernel> kernels;
  for (const Kernel kernel : kKernels)
    if (use(kernel)) kernels.push_back(kernel);
  use(chosen);
  return kernels;
}

/// Rows of random bytes, each in an allocation of its own (so that a sanitizer sees its ends),
/// `offset` bytes into the allocation (so that the row is not aligned).
class Rows {
 public:
  Rows(std::size_t count, std::size_t length, std::size_t offset, Random& random)
      : length_(length), offset_(offset), stores_(count, Bytes(offset + length + kGuard)) {
    for (Bytes& store : stores_) {
      random.fill(store);
      reads_.push_back(store.data() + offset);
      writes_.push_back(store.data() + offset);
    }
  }
  ByteSpan row(std::size_t i) const { return ByteSpan(reads_[i], length_); }
  std::span<const std::uint8_t* const> reads() const { return reads_; }
  std::span<std::uint8_t* const> writes() { return writes_; }
  const std::vector<Bytes>& stores() const { return stores_; }
  /// Returns a copy of everything, from which the expected result is computed.
  std::vector<Bytes> copy() const { return stores_; }
  MutableByteSpan in(std::vector<Bytes>& copy, std::size_t i) const {
    return MutableByteSpan(copy[i]).subspan(offset_, length_);
  }

 private:
  static constexpr std::size_t kGuard = 3;  // bytes after a row, which must stay as they are
  std::size_t length_;
  std::size_t offset_;
  std::vector<Bytes> stores_;
  std::vector<const std::uint8_t*> reads_;
  std::vector<std::uint8_t*> writes_;
};

class Kernels : public testing::TestWithParam<Kernel> {
 protected:
  void SetUp() override { ASSERT_TRUE(use(GetParam())); }
  void TearDown() override { use(before_); }

  Bytes random_bytes(std::size_t size) {
    Bytes bytes(size);
    random_.fill(bytes);
    return bytes;
  }

  void expect_multiply_add(std::uint8_t coefficient, std::size_t length, std::size_t offset) {
    const Rows in(1, length, offset, random_);
    Rows out(1, length, 7 - offset, random_);
    auto expected = out.copy();
    oracle::multiply_add(coefficient, in.row(0), out.in(expected, 0));
    multiply_add(coefficient, in.row(0), MutableByteSpan(out.writes()[0], length));
    ASSERT_EQ(out.stores(), expected) << "c=" << +coefficient << " length=" << length;
  }

  void expect_inner_product(ByteSpan coefficients, std::size_t length, std::size_t offset) {
    const Rows in(coefficients.size(), length, offset, random_);
    Rows out(1, length, 7 - offset, random_);
    auto expected = out.copy();
    for (std::size_t i = 0; i < coefficients.size(); ++i)
      oracle::multiply_add(coefficients[i], in.row(i), out.in(expected, 0));
    inner_product(coefficients, in.reads(), MutableByteSpan(out.writes()[0], length));
    ASSERT_EQ(out.stores(), expected) << "rows=" << coefficients.size() << " length=" << length;
  }

  void expect_matrix_product(std::size_t count, std::size_t columns, std::size_t length,
                             std::size_t offset) {
    const Rows in(count, length, offset, random_);
    Rows outs(columns, length, 7 - offset, random_);
    const Bytes matrix = random_bytes(count * columns);
    auto expected = outs.copy();
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k < columns; ++k)
        oracle::multiply_add(matrix[i * columns + k], in.row(i), outs.in(expected, k));
    matrix_product(matrix, in.reads(), outs.writes(), length);
    ASSERT_EQ(outs.stores(), expected)
        << count << " x " << columns << " length=" << length << " offset=" << offset;
  }

  void expect_sum(std::size_t count, std::size_t length, std::size_t offset) {
    const Rows in(count, length, offset, random_);
    Rows out(1, length, 7 - offset, random_);
    auto expected = out.copy();
    for (std::size_t i = 0; i < count; ++i) oracle::multiply_add(1, in.row(i), out.in(expected, 0));
    sum(in.reads(), MutableByteSpan(out.writes()[0], length));
    ASSERT_EQ(out.stores(), expected) << "rows=" << count << " length=" << length;
  }

  /// The bits after the last column are random too.
  void expect_bit_product(std::size_t count, std::size_t outs_count, std::size_t length,
                          std::size_t offset) {
    const Rows in(count, length, offset, random_);
    Rows outs(outs_count, length, 7 - offset, random_);
    const Bytes bits = random_bytes(outs_count * bit_row(count));
    auto expected = outs.copy();
    for (std::size_t j = 0; j < outs_count; ++j)
      for (std::size_t i = 0; i < count; ++i)
        if (bits[j * bit_row(count) + i / 8] >> i % 8 & 1)
          oracle::multiply_add(1, in.row(i), outs.in(expected, j));
    bit_product(bits, in.reads(), outs.writes(), length);
    ASSERT_EQ(outs.stores(), expected)
        << count << " rows into " << outs_count << " length=" << length << " offset=" << offset;
  }

  Prg random_{Seed{}, as_bytes("kernels_test")};

 private:
  const Kernel before_ = kernel();
};

const std::size_t kLengths[] = {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 95, 127,
                                128, 129, 191, 192, 193, 255, 256, 257, 511, 512, 513, 1000, 4096,
                                4136, 8191, 8192, 8193, 8255, 8256, 8257, 16383, 16384, 16385,
                                16447, 16449, 32808,
                                // Longer than a tile of the inner product.
                                65535, 65536, 98303, 98304, 98337, 131072, 131080, 200001};

TEST_P(Kernels, MultiplyAddWithEveryCoefficient) {
  for (unsigned c = 0; c < 256; ++c)
    expect_multiply_add(static_cast<std::uint8_t>(c), 64 + c % 67, c % 8);
}

TEST_P(Kernels, EveryProduct) {
  for (unsigned c = 0; c < 256; ++c) {
    Bytes in(256 + 64);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i + c);
    Bytes expected(in.size());
    oracle::multiply_add(static_cast<std::uint8_t>(c), in, expected);
    Bytes out(in.size());
    multiply_add(static_cast<std::uint8_t>(c), in, out);
    ASSERT_EQ(out, expected) << "c=" << c;
  }
}

TEST_P(Kernels, MultiplyAddOfEveryLength) {
  for (std::size_t length = 0; length <= 300; ++length)
    for (std::size_t offset = 0; offset < 8; ++offset) expect_multiply_add(0xc5, length, offset);
}

TEST_P(Kernels, InnerProductOfEveryLength) {
  for (const std::size_t length : kLengths)
    expect_inner_product(random_bytes(11), length, length % 8);
}

TEST_P(Kernels, InnerProductOfEveryRowCount) {
  for (std::size_t count = 0; count <= 40; ++count)
    for (const std::size_t length : {40, 64, 100, 200, 16500})
      expect_inner_product(random_bytes(count), length, count % 8);
}

TEST_P(Kernels, InnerProductWithExtremeCoefficients) {
  for (const std::uint8_t c : {0x00, 0x01, 0x80, 0xff}) expect_inner_product(Bytes(17, c), 333, 1);
}

TEST_P(Kernels, MatrixProductOfEveryLength) {
  for (const std::size_t length : kLengths) expect_matrix_product(10, 5, length, length % 8);
}

TEST_P(Kernels, MatrixProductOfEverySmallShape) {
  for (std::size_t count = 0; count <= 9; ++count)
    for (std::size_t columns = 0; columns <= 9; ++columns)
      for (const std::size_t length : {33, 64, 100, 150})
        expect_matrix_product(count, columns, length, columns % 8);
}

// More rows than any kernel handles at a time, and the sizes around those.
TEST_P(Kernels, MatrixProductOfManyRows) {
  for (const std::size_t count : {127, 128, 129, 255, 256, 257, 666})
    expect_matrix_product(count, 6, 150, 3);
}

TEST_P(Kernels, SumOfEveryLengthAndRowCount) {
  for (const std::size_t length : kLengths) expect_sum(11, length, length % 8);
  for (std::size_t count = 0; count <= 40; ++count)
    for (const std::size_t length : {40, 64, 100, 200, 16500}) expect_sum(count, length, count % 8);
}

TEST_P(Kernels, BitProductOfEveryLength) {
  for (const std::size_t length : kLengths) expect_bit_product(11, 5, length, length % 8);
}

TEST_P(Kernels, BitProductOfEveryShape) {
  for (const std::size_t count : {0, 1, 7, 8, 9, 15, 16, 17, 64, 100})
    for (const std::size_t outs : {0, 1, 2, 9, 33}) expect_bit_product(count, outs, 130, outs % 8);
  expect_bit_product(37, 300, 150, 3);
}

INSTANTIATE_TEST_SUITE_P(Here, Kernels, testing::ValuesIn(kernels_here()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(Dispatch, PortableIsEverywhereAndABetterOneIsFoundHere) {
  const Kernel chosen = kernel();
  EXPECT_TRUE(use(Kernel::portable));
  EXPECT_EQ(kernel(), Kernel::portable);
  EXPECT_TRUE(use(chosen));
  EXPECT_EQ(kernel(), chosen);
  EXPECT_EQ(chosen, kernels_here().back());
}

}  // namespace
}  // namespace s3oram::gf
