// Tests how long failures and lies are reported.
#include "oramcore/client/troubles.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

constexpr std::chrono::seconds kNow{100};

TEST(Troubles, AFailureEndsWhenTheSameSucceeds) {
  Troubles troubles;
  troubles.failed(2, MessageType::certify, {Errc::failed, "no"}, kNow);
  troubles.worked(2, MessageType::prepare);
  ASSERT_TRUE(troubles.at(2, kNow));
  EXPECT_EQ(troubles.at(2, kNow)->error.message, "no");
  EXPECT_FALSE(troubles.at(1, kNow));
  troubles.worked(2, MessageType::certify);
  EXPECT_FALSE(troubles.at(2, kNow));
}

TEST(Troubles, ALieStaysForAMinuteWhateverSucceeds) {
  Troubles troubles;
  troubles.lied(2, {Errc::servers_disagree, "it lies"}, kNow);
  for (unsigned type = 0; type < 256; ++type) troubles.worked(2, static_cast<MessageType>(type));
  ASSERT_TRUE(troubles.at(2, kNow + Troubles::kForgotten));
  EXPECT_EQ(troubles.at(2, kNow)->error.message, "it lies");
  EXPECT_FALSE(troubles.at(2, kNow + Troubles::kForgotten + std::chrono::seconds(1)));
}

}  // namespace
}  // namespace s3oram
