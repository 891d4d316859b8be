// The field's operations, with the best kernel that this machine supports.
#include "oramcore/field/gf256.h"

#include <atomic>
#include <cassert>

#include "oramcore/field/kernels.h"
#include "oramcore/field/scalar.h"

namespace s3oram::gf {
namespace {

bool supported(Kernel kernel) {
  switch (kernel) {
    case Kernel::portable:
      return true;
#ifdef S3O_FIELD_X86
    case Kernel::ssse3:
      return __builtin_cpu_supports("ssse3");
    case Kernel::avx2:
      return __builtin_cpu_supports("avx2");
    case Kernel::gfni:  // "avx512f" also says that the operating system saves the wide registers
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("gfni");
#endif
#ifdef S3O_FIELD_NEON
    case Kernel::neon:  // every 64-bit Arm has it
      return true;
#endif
    default:
      return false;
  }
}

Kernel best() {
  Kernel best = Kernel::portable;
  for (const Kernel kernel : kKernels)
    if (supported(kernel)) best = kernel;
  return best;
}

std::atomic<Kernel>& chosen() {
  static std::atomic<Kernel> kernel = best();
  return kernel;
}

const Kernels& kernels() {
  switch (kernel()) {
#ifdef S3O_FIELD_X86
    case Kernel::ssse3:
      return kSsse3Kernels;
    case Kernel::avx2:
      return kAvx2Kernels;
    case Kernel::gfni:
      return kGfniKernels;
#endif
#ifdef S3O_FIELD_NEON
    case Kernel::neon:
      return kNeonKernels;
#endif
    default:
      return kPortableKernels;
  }
}

}  // namespace

std::uint8_t mul(std::uint8_t a, std::uint8_t b) { return product(a, b); }

std::uint8_t inverse(std::uint8_t a) {
  assert(a != 0);
  // a^255 = 1, so the inverse is a^254, the product of a^(2^i) for i = 1..7.
  std::uint8_t result = 1;
  std::uint8_t square = a;
  for (int i = 1; i <= 7; ++i) {
    square = product(square, square);
    result = product(result, square);
  }
  return result;
}

void multiply_add(std::uint8_t coefficient, ByteSpan in, MutableByteSpan out) {
  assert(in.size() == out.size());
  const std::uint8_t* row = in.data();
  kernels().inner_product(&coefficient, &row, 1, out.data(), out.size());
}

void inner_product(ByteSpan coefficients, std::span<const std::uint8_t* const> rows,
                   MutableByteSpan out) {
  assert(coefficients.size() == rows.size());
  kernels().inner_product(coefficients.data(), rows.data(), rows.size(), out.data(), out.size());
}

void matrix_product(ByteSpan matrix, std::span<const std::uint8_t* const> rows,
                    std::span<std::uint8_t* const> outs, std::size_t length) {
  assert(matrix.size() == rows.size() * outs.size());
  kernels().matrix_product(matrix.data(), rows.data(), rows.size(), outs.data(), outs.size(),
                           length);
}

void sum(std::span<const std::uint8_t* const> rows, MutableByteSpan out) {
  kernels().sum(rows.data(), rows.size(), out.data(), out.size());
}

void bit_product(ByteSpan bits, std::span<const std::uint8_t* const> rows,
                 std::span<std::uint8_t* const> outs, std::size_t length) {
  assert(bits.size() == outs.size() * bit_row(rows.size()));
  kernels().bit_product(bits.data(), rows.data(), rows.size(), outs.data(), outs.size(), length);
}

Kernel kernel() { return chosen().load(std::memory_order_relaxed); }

bool use(Kernel kernel) {
  if (!supported(kernel)) return false;
  chosen().store(kernel, std::memory_order_relaxed);
  return true;
}

std::string_view name(Kernel kernel) {
  switch (kernel) {
    case Kernel::portable:
      return "portable";
    case Kernel::ssse3:
      return "ssse3";
    case Kernel::avx2:
      return "avx2";
    case Kernel::gfni:
      return "gfni";
    case Kernel::neon:
      return "neon";
  }
  return "unknown";
}

}  // namespace s3oram::gf
