// The oracle notices when a rule of the file system is left out; otherwise it would prove little.
#include "oramcore/base/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "tests/fused/sim/runs.h"

namespace s3oram::sim {
namespace {

constexpr std::uint64_t kSeeds = 500;  // the oracle must notice within these

class RulesTest : public ::testing::TestWithParam<Rule> {
 protected:
  void SetUp() override { leave_out(GetParam()); }
  void TearDown() override { leave_out(GetParam(), false); }
};

TEST_P(RulesTest, IsMissed) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto failure = run_on_memory(seed);
    if (!failure) continue;
    std::cout << "seed " << seed << ": " << failure->substr(0, failure->find('\n')) << "\n";
    return;
  }
  FAIL() << kSeeds << " seeds pass without the rule " << name_of(GetParam());
}

INSTANTIATE_TEST_SUITE_P(FileSystem, RulesTest,
                         ::testing::Values(Rule::decide_never_waits, Rule::one_transaction,
                                           Rule::free_after_commit, Rule::rename_flush,
                                           Rule::valid_bytes, Rule::fsync_barrier,
                                           Rule::hold_writes),
                         [](const auto& rule) {
                           std::string name(name_of(rule.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace s3oram::sim
