// Compares random operations, failures and power cuts with the oracle. A failure names its seed; to
// replay one:
//
//   S3O_SEED=17 S3O_SEEDS=1 fused_oracle_test --gtest_filter='*Memory*'
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/fused/sim/runs.h"

namespace s3oram::sim {
namespace {

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

TEST(OracleTest, MemoryDevice) {
  const std::uint64_t first = number("S3O_SEED", 1), seeds = number("S3O_SEEDS", 250);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const auto failure = run_on_memory(seed);
    ASSERT_FALSE(failure) << "seed " << seed << ": " << *failure;
  }
}

TEST(OracleTest, Cluster) {
  const std::uint64_t first = number("S3O_SEED", 1), seeds = number("S3O_SEEDS", 20);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const auto failure = run_on_cluster(seed);
    ASSERT_FALSE(failure) << "seed " << seed << ": " << *failure;
  }
}

}  // namespace
}  // namespace s3oram::sim
