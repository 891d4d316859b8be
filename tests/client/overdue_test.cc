// Tests that work that takes too long is noticed, and that work that has ended makes nobody wait.
#include "oramcore/client/overdue.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>

namespace s3oram {
namespace {

class Overdue : public testing::Test {
 protected:
  asio::io_context io_;
  SystemClock clock_{io_.get_executor()};
  std::shared_ptr<int> work_ = std::make_shared<int>();
  bool called_ = false;
};

TEST_F(Overdue, CallsOnceTheTimeHasPassed) {
  when_overdue(clock_, std::chrono::milliseconds(120), work_, [&] { called_ = true; });
  io_.run_for(std::chrono::minutes(1));
  EXPECT_TRUE(called_);
}

TEST_F(Overdue, KeepsNoExecutorBusyForWorkThatHasEnded) {
  when_overdue(clock_, std::chrono::hours(1), work_, [&] { called_ = true; });
  work_.reset();
  io_.run_for(std::chrono::minutes(1));
  EXPECT_TRUE(io_.stopped());
  EXPECT_FALSE(called_);
}

}  // namespace
}  // namespace s3oram
