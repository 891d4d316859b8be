// Tests what a user is told about a repair or a scrub.
#include "cli/repaired.h"

#include "oramcore/base/random.h"
#include "tests/base/good.h"
#include "tests/vault/vault_fixture.h"

namespace s3oram {
namespace {

class ReportRepairTest : public VaultFixture {
 protected:
  /// Returns what is printed on both streams.
  std::string told(const RepairedVolume& repaired) {
    auto vault = Vault::create(root_ / "v", local_config(), {}, random_, kQuick);
    EXPECT_TRUE(vault);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_TRUE(report_repair(*vault, {2}, repaired));
    std::string output = testing::internal::GetCapturedStdout();
    return output + testing::internal::GetCapturedStderr();
  }
  static bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  }

  SystemRandom random_;
};

// The servers may have been restarted meanwhile, and reach each other now.
TEST_F(ReportRepairTest, SharesThatWentThroughTheClientAreNoFailure) {
  RepairedVolume repaired;
  repaired.healed[2] = 31;
  repaired.hindrance = "server 3 says: the server was restarted";
  const std::string text = told(repaired);
  EXPECT_TRUE(has(text, "damaged and healed: 31 shares of server 2")) << text;
  EXPECT_TRUE(has(text, "(server 3 says: the server was restarted)")) << text;
  EXPECT_TRUE(has(text, "nothing is lost")) << text;
  EXPECT_FALSE(has(text, "cannot be used")) << text;
}

}  // namespace
}  // namespace s3oram
