// Tests which words are recognized as misspelled.
#include "oramcore/base/spelling.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

TEST(Spelling, FindsTheNearestWordOrNone) {
  const std::vector<std::string> words{"mount", "umount", "status", "init"};
  EXPECT_EQ(nearest_word("mout", words), "mount");
  EXPECT_EQ(nearest_word("unmount", words), "umount");
  EXPECT_EQ(nearest_word("stauts", words), "status");
  EXPECT_EQ(nearest_word("int", words), "init");
  EXPECT_EQ(nearest_word("frobnicate", words), "");
  EXPECT_EQ(nearest_word("x", words), "");
  EXPECT_EQ(nearest_word("", words), "");
}

}  // namespace
}  // namespace s3oram
