// Tests that programs end only with codes that their manual page lists.
#include "oramcore/base/exit_code.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

TEST(ExitCode, IsThatOfTheErrorIfScriptsKnowIt) {
  EXPECT_EQ(exit_code({Errc::failed, ""}), 1);
  EXPECT_EQ(exit_code({Errc::vault_in_use, ""}), 13);
  EXPECT_EQ(exit_code({Errc::servers_disagree, ""}), 25);
}

TEST(ExitCode, IsNoneOfAnAnswerBetweenParties) {
  EXPECT_EQ(exit_code({Errc::fenced, ""}), 16) << "a copy of the vault has the volume";
  for (const Errc code :
       {Errc::need_open, Errc::bad_request, Errc::shutting_down, Errc::former_view})
    EXPECT_EQ(exit_code({code, ""}), 1);
}

}  // namespace
}  // namespace s3oram
