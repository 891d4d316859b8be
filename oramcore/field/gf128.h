// GF(2^128) = GF(2)[X] / (X^128 + X^7 + X^2 + X + 1), the field of digests: one element fails to
// distinguish two messages of any length with a probability of 2^-128. An element is 16 bytes; byte
// 0 holds the coefficients of X^0 to X^7, lowest bit first.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "oramcore/base/bytes.h"

namespace s3oram::gf128 {

struct Element {
  std::uint64_t low = 0, high = 0;  // coefficients of X^0 to X^63, and of X^64 to X^127
  friend bool operator==(const Element&, const Element&) = default;
  Element& operator+=(const Element& other) {
    low ^= other.low;
    high ^= other.high;
    return *this;
  }
  friend Element operator+(Element a, const Element& b) { return a += b; }
};

/// Reads an element from its 16 bytes.
Element from_bytes(ByteSpan bytes);
std::array<std::uint8_t, 16> to_bytes(const Element& element);

/// A sum of products that is not reduced yet, so that a long sum is reduced only once.
struct Sum {
  std::array<std::uint64_t, 4> words{};  // coefficients of a polynomial of degree at most 254
};

/// sum += coefficients[0] * words[0] + coefficients[1] * words[1] + ..., where `words` are elements
/// of 16 bytes each. Takes the same time for all contents.
void multiply_add(std::span<const Element> coefficients, ByteSpan words, Sum& sum);

Element reduce(const Sum& sum);

Element multiply(const Element& a, const Element& b);

/// The instructions that multiply_add() uses, chosen once at run time. use() is for tests and
/// benchmarks; it returns false if this machine does not support the kernel.
enum class Kernel { portable, clmul, vclmul, pmull };
/// All kernels. If a machine supports several, the later one is better.
inline constexpr Kernel kKernels[] = {Kernel::portable, Kernel::clmul, Kernel::vclmul,
                                      Kernel::pmull};
Kernel kernel();
bool use(Kernel kernel);
std::string_view name(Kernel kernel);

}  // namespace s3oram::gf128
