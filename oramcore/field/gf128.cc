// The field's operations, on top of the best kernel that the machine supports.
#include "oramcore/field/gf128.h"

#ifdef S3O_FIELD_NEON
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <atomic>
#include <cassert>
#include <cstring>

#include "oramcore/field/gf128_kernels.h"

namespace s3oram::gf128 {
namespace {

constexpr std::size_t kElement = 16;

bool supported(Kernel kernel) {
  switch (kernel) {
    case Kernel::portable:
      return true;
#ifdef S3O_FIELD_X86
    case Kernel::clmul:
      return __builtin_cpu_supports("pclmul");
    case Kernel::vclmul:  // "avx512f" also says that the operating system saves the wide registers
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
#endif
#ifdef S3O_FIELD_NEON
    case Kernel::pmull:
      return (::getauxval(AT_HWCAP) & HWCAP_PMULL) != 0;
#endif
    default:
      return false;
  }
}

Kernel best_kernel() {
  Kernel best = Kernel::portable;
  for (const Kernel kernel : kKernels)
    if (supported(kernel)) best = kernel;
  return best;
}

std::atomic<Kernel>& chosen_kernel() {
  static std::atomic<Kernel> kernel = best_kernel();
  return kernel;
}

MultiplyAdd kernel_function() {
  switch (kernel()) {
#ifdef S3O_FIELD_X86
    case Kernel::clmul:
      return multiply_add_clmul;
    case Kernel::vclmul:
      return multiply_add_vclmul;
#endif
#ifdef S3O_FIELD_NEON
    case Kernel::pmull:
      return multiply_add_pmull;
#endif
    default:
      return multiply_add_portable;
  }
}

}  // namespace

static_assert(sizeof(Element) == kElement);

Element from_bytes(ByteSpan bytes) {
  assert(bytes.size() == kElement);
  Element element;
  std::memcpy(&element, bytes.data(), kElement);
  return element;
}

std::array<std::uint8_t, 16> to_bytes(const Element& element) {
  std::array<std::uint8_t, 16> bytes;
  std::memcpy(bytes.data(), &element, kElement);
  return bytes;
}

void multiply_add(std::span<const Element> coefficients, ByteSpan words, Sum& sum) {
  assert(words.size() == coefficients.size() * kElement);
  kernel_function()(&coefficients.data()->low, words.data(), coefficients.size(), sum.words.data());
}

// Because X^128 = X^7 + X^2 + X + 1, words 2 and 3 are added to words 0 and 1, shifted by 7, 2, 1
// and 0. At most 7 bits are shifted beyond X^127, and are reduced in the same way.
Element reduce(const Sum& sum) {
  const auto [w0, w1, w2, w3] = sum.words;
  const std::uint64_t over = w3 >> 63 ^ w3 >> 62 ^ w3 >> 57;
  const std::uint64_t folded = w2 ^ over;
  return {w0 ^ folded ^ folded << 1 ^ folded << 2 ^ folded << 7,
          w1 ^ w3 ^ (w3 << 1 | folded >> 63) ^ (w3 << 2 | folded >> 62) ^ (w3 << 7 | folded >> 57)};
}

Element multiply(const Element& a, const Element& b) {
  Sum sum;
  multiply_add(std::span(&a, 1), to_bytes(b), sum);
  return reduce(sum);
}

Kernel kernel() { return chosen_kernel().load(std::memory_order_relaxed); }

bool use(Kernel kernel) {
  if (!supported(kernel)) return false;
  chosen_kernel().store(kernel, std::memory_order_relaxed);
  return true;
}

std::string_view name(Kernel kernel) {
  switch (kernel) {
    case Kernel::portable:
      return "portable";
    case Kernel::clmul:
      return "clmul";
    case Kernel::vclmul:
      return "vclmul";
    case Kernel::pmull:
      return "pmull";
  }
  return "unknown";
}

}  // namespace s3oram::gf128
