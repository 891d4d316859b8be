// Compares random operations, failures and power cuts with the oracle. A failure names its seed; to
// replay one, or to run for as long as you like:
//
//   S3O_SEED=17 S3O_SEEDS=1 fused_oracle_test --gtest_filter='*ring'
//   S3O_SEED=1000 S3O_SECONDS=600 fused_oracle_test --gtest_filter='*mirror'
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "tests/fused/sim/runs.h"

namespace s3oram::sim {
namespace {

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

/// Runs `usual` seeds from 1, or those that the environment names.
void run_seeds(std::uint64_t usual,
               const std::function<std::optional<std::string>(std::uint64_t)>& run) {
  const std::chrono::seconds limit(number("S3O_SECONDS", 0));
  const std::uint64_t first = number("S3O_SEED", 1);
  const std::uint64_t seeds = number("S3O_SEEDS", limit.count() > 0 ? UINT64_MAX - first : usual);
  const auto begun = std::chrono::steady_clock::now();
  std::uint64_t seed = first;
  for (; seed < first + seeds; ++seed) {
    if (limit.count() > 0 && std::chrono::steady_clock::now() - begun > limit) break;
    const auto failure = run(seed);
    ASSERT_FALSE(failure) << "seed " << seed << ": " << *failure;
  }
  if (limit.count() > 0) std::cout << seed - first << " seeds from " << first << "\n";
}

TEST(OracleTest, MemoryDevice) { run_seeds(250, run_on_memory); }

struct Case {
  const char* name;
  WorldKind kind;
  std::uint64_t seeds;
};

class ClusterOracle : public testing::TestWithParam<Case> {};

TEST_P(ClusterOracle, KeepsAllPromises) {
  run_seeds(GetParam().seeds,
            [](std::uint64_t seed) { return run_on_cluster(seed, GetParam().kind); });
}

constexpr Case kCases[] = {
    {"s3oram", {SchemeKind::s3oram}, 20},
    {"s3oram_servers_die", {SchemeKind::s3oram, true}, 2},
    {"mirror", {SchemeKind::mirror, true}, 4},
    {"ring", {SchemeKind::ring, true}, 4},
};
INSTANTIATE_TEST_SUITE_P(Schemes, ClusterOracle, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace s3oram::sim
