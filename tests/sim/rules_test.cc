// Each rule is taken out in turn, and the simulator must notice: a rule whose absence nothing
// notices would not be tested. (Those of the file system are taken out in tests/sim_fs.)
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "oramcore/base/rules.h"
#include "tests/sim/simulation.h"

namespace s3oram {
namespace {

#ifndef S3O_RULE_SWITCHES
#error "this test needs a build with S3O_RULE_SWITCHES"
#endif

class Without : public testing::TestWithParam<Rule> {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    leave_out(GetParam());
  }
  void TearDown() override { leave_out(GetParam(), false); }
};

TEST_P(Without, SomethingIsNoticed) {
  constexpr std::uint64_t kRuns = 400;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    const auto report = test::simulate(seed);
    if (report.failure.empty()) continue;
    std::printf("without %s, seed %d: %s\n", std::string(name_of(GetParam())).c_str(),
                static_cast<int>(seed), report.failure.c_str());
    return;
  }
  FAIL() << kRuns << " runs without \"" << name_of(GetParam()) << "\", and nothing noticed it";
}

std::string rule_name(const testing::TestParamInfo<Rule>& test) {
  std::string name(name_of(test.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Without,
    testing::Values(Rule::checksums, Rule::durable_answers, Rule::acknowledged_positions,
                    Rule::no_retry_of_failed_sync, Rule::recovery_first, Rule::intents,
                    Rule::copy_on_write, Rule::durable_prepare, Rule::decide_first,
                    Rule::former_view, Rule::attempts, Rule::epochs, Rule::compare_and_set,
                    Rule::full_sync, Rule::reserve_space, Rule::ballast, Rule::root_stamps),
    rule_name);

}  // namespace
}  // namespace s3oram
