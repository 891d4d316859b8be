// The kernels of GF(2^128), one for each instruction set. As in kernels.h, files that are compiled
// with special flags use only plain pointers, and no kernel branches on data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace s3oram::gf128 {

/// sum[0..4) ^= the products of coefficients[i] and words[i], i < count, as polynomials over GF(2).
/// An element is two 64-bit numbers, lower coefficients first; words need no alignment.
using MultiplyAdd = void (*)(const std::uint64_t* coefficients, const std::uint8_t* words,
                             std::size_t count, std::uint64_t* sum);

void multiply_add_portable(const std::uint64_t* coefficients, const std::uint8_t* words,
                           std::size_t count, std::uint64_t* sum);
void multiply_add_clmul(const std::uint64_t* coefficients, const std::uint8_t* words,
                        std::size_t count, std::uint64_t* sum);  // x86 only
void multiply_add_vclmul(const std::uint64_t* coefficients, const std::uint8_t* words,
                         std::size_t count, std::uint64_t* sum);  // x86 only
void multiply_add_pmull(const std::uint64_t* coefficients, const std::uint8_t* words,
                        std::size_t count, std::uint64_t* sum);  // 64-bit Arm only

}  // namespace s3oram::gf128
