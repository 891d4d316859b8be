// Which end of a cut line the client does without.
#include <gtest/gtest.h>

#include "oramcore/client/line_watch.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;

class Judge : public testing::Test {
 protected:
  Party leave_out(const CutLines& cut) {
    const Party chosen = judge_.choose(cut, now_);
    judge_.left_out(chosen);
    return chosen;
  }
  LineJudge judge_{4};
  Duration now_ = 1h;
};

TEST_F(Judge, TakesTheServerWithTheMostCutLines) {
  EXPECT_EQ(leave_out({{1, 2}, {2, 3}, {2, 4}}), 2);
  EXPECT_EQ(LineJudge(4).choose({{1, 2}, {1, 3}}, now_), 1);
}

TEST_F(Judge, TakesTheEndsOfOneLineInTurn) {
  const Party first = leave_out({{1, 3}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(leave_out({{1, 3}}), first == 1 ? 3 : 1);
    EXPECT_EQ(leave_out({{1, 3}}), first);
  }
}

// Whichever server lies, it is at an end each time.
TEST_F(Judge, TakesTheOneThatAccusesOneAfterTheOther) {
  EXPECT_EQ(leave_out({{1, 2}}), 2);
  EXPECT_EQ(leave_out({{1, 3}}), 1);
}

TEST_F(Judge, ForgetsWhatWasLongAgo) {
  EXPECT_EQ(leave_out({{1, 2}}), 2);
  now_ += 1h;
  EXPECT_EQ(leave_out({{1, 2}}), 2);
}

}  // namespace
}  // namespace s3oram
