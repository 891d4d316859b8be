// Compares every kernel of GF(2^128) with NTL, and tests properties that digests rely on.
#include "oramcore/field/gf128.h"

#include <NTL/GF2E.h>
#include <gtest/gtest.h>

#include <random>

namespace s3oram::gf128 {
namespace {

NTL::GF2X modulus() {
  NTL::GF2X polynomial;
  for (const long degree : {128, 7, 2, 1, 0}) NTL::SetCoeff(polynomial, degree);
  return polynomial;
}

NTL::GF2E in_ntl(ByteSpan bytes) {
  return NTL::to_GF2E(NTL::GF2XFromBytes(bytes.data(), static_cast<long>(bytes.size())));
}

Element from_ntl(const NTL::GF2E& element) {
  std::array<std::uint8_t, 16> bytes{};
  NTL::BytesFromGF2X(bytes.data(), rep(element), 16);
  return from_bytes(bytes);
}

/// Runs every test with the parameter's kernel, if this machine has it.
class Gf128Test : public testing::TestWithParam<Kernel> {
 protected:
  Gf128Test() : available_(use(GetParam())) {}
  ~Gf128Test() override { use(before_); }

  Bytes random_bytes(std::size_t size) {
    Bytes bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random_());
    return bytes;
  }
  std::vector<Element> random_elements(std::size_t count) {
    std::vector<Element> elements;
    for (std::size_t i = 0; i < count; ++i) elements.push_back(from_bytes(random_bytes(16)));
    return elements;
  }

  const Kernel before_ = kernel();
  const bool available_;
  std::mt19937_64 random_{128};
  NTL::GF2EPush field_{modulus()};
};

TEST_P(Gf128Test, SumsOfProductsAreThoseOfNtl) {
  if (!available_) return;
  for (std::size_t count = 0; count <= 67; ++count) {
    const auto coefficients = random_elements(count);
    const Bytes words = random_bytes(count * 16 + 1);  // the kernel must not need aligned words
    const ByteSpan unaligned = ByteSpan(words).subspan(1);
    NTL::GF2E expected;
    for (std::size_t i = 0; i < count; ++i)
      expected += in_ntl(to_bytes(coefficients[i])) * in_ntl(unaligned.subspan(i * 16, 16));
    Sum sum;
    multiply_add(coefficients, unaligned, sum);
    ASSERT_EQ(reduce(sum), from_ntl(expected)) << count << " words, " << name(GetParam());
  }
}

TEST_P(Gf128Test, EverySingleBitTimesEverySingleBit) {
  if (!available_) return;
  for (unsigned a = 0; a < 128; ++a)
    for (unsigned b = 0; b < 128; b += 1 + a % 3) {
      Bytes of_a(16), of_b(16);
      of_a[a / 8] = static_cast<std::uint8_t>(1 << a % 8);
      of_b[b / 8] = static_cast<std::uint8_t>(1 << b % 8);
      ASSERT_EQ(multiply(from_bytes(of_a), from_bytes(of_b)), from_ntl(in_ntl(of_a) * in_ntl(of_b)))
          << "X^" << a << " times X^" << b;
    }
}

TEST_P(Gf128Test, ASumGoesOnWhereItWasLeft) {
  if (!available_) return;
  const auto coefficients = random_elements(40);
  const Bytes words = random_bytes(40 * 16);
  Sum whole, parts;
  multiply_add(coefficients, words, whole);
  const std::span all(coefficients);
  multiply_add(all.first(13), ByteSpan(words).first(13 * 16), parts);
  multiply_add(all.subspan(13), ByteSpan(words).subspan(13 * 16), parts);
  EXPECT_EQ(reduce(whole), reduce(parts));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Gf128Test, testing::ValuesIn(kKernels),
                         [](const auto& each) { return std::string(name(each.param)); });

TEST(Gf128, TheBestKernelOfThisMachineIsChosen) {
  const Kernel chosen = kernel();
  Kernel best = Kernel::portable;
  for (const Kernel each : kKernels)
    if (use(each)) best = each;
  use(chosen);
  EXPECT_EQ(chosen, best);
}

}  // namespace
}  // namespace s3oram::gf128
