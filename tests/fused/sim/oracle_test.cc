// Random operations, failures and power cuts against the oracle. A failure names its seed; to
// replay one seed:
//
//   S3O_SEED=17 fused_oracle_test --gtest_filter='*Memory*'
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/fused/sim/runs.h"

namespace s3oram::sim {
namespace {

TEST(OracleTest, MemoryDevice) {
  if (const char* seed = std::getenv("S3O_SEED")) {
    const auto failure = run_on_memory(std::strtoull(seed, nullptr, 10));
    EXPECT_FALSE(failure) << *failure;
    return;
  }
  const char* wanted = std::getenv("S3O_SEEDS");
  const std::uint64_t seeds = wanted ? std::strtoull(wanted, nullptr, 10) : 1000;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto failure = run_on_memory(seed);
    ASSERT_FALSE(failure) << "seed " << seed << ": " << *failure;
  }
}

}  // namespace
}  // namespace s3oram::sim
