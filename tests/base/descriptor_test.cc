// Tests that a descriptor is closed with the last object that holds it.
#include "oramcore/base/descriptor.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

TEST(DescriptorTest, EndsWithTheLastThatHasIt) {
  const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
  Descriptor ends[2];
  ASSERT_TRUE(open_pipe(ends));
  const int reading = ends[0].get(), writing = ends[1].get();
  {
    const Descriptor other = std::move(ends[0]);
    EXPECT_EQ(ends[0].get(), -1);
    EXPECT_EQ(other.get(), reading);
    EXPECT_TRUE(is_open(reading));
  }
  EXPECT_FALSE(is_open(reading));
  ends[1] = Descriptor(::dup(writing));
  EXPECT_NE(ends[1].get(), writing);
  EXPECT_FALSE(is_open(writing)) << "what is overwritten is closed";
  EXPECT_TRUE(is_open(ends[1].get()));
  EXPECT_TRUE(ends[1].close());
  EXPECT_EQ(ends[1].get(), -1);
  EXPECT_TRUE(ends[1].close()) << "there is nothing to close";
}

}  // namespace
}  // namespace s3oram
