// Tests what happens when a store is not what it should be, and the root's slots in memory. No test
// here runs a server.
#include "serverd/oram/store_care.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "serverd/oram/root_buffer.h"
#include "tests/base/temporary_directory.h"
#include "tests/harness/memory_file.h"

namespace s3oram {
namespace {

class StoreCareTest : public testing::Test {
 protected:
  void settle() {
    context_.restart();
    context_.poll();
  }
  /// Looks twice: the files count as unchanged only if two looks in a row find them the same.
  void look_twice() {
    for (int i = 0; i < 2; ++i) {
      care_.look_after();
      settle();
    }
  }

  void put_store_back() {
    for (const char* file : {"control.db", "slots"}) std::ofstream(folder_ / file) << "content";
  }

  TemporaryDirectory folder_;
  asio::io_context context_{1};
  Status there_, again_;
  bool busy_ = false;
  Event idle_;
  std::vector<std::string> stopped_;
  unsigned reopened_ = 0;
  StoreCare care_{context_.get_executor(),
                  2,
                  folder_.path(),
                  system_disk(),
                  {.still_there = [this] { return there_; },
                   .stop = [this](const Error& why) { stopped_.push_back(why.message); },
                   .quiet = [this]() -> Task<void> {
                     while (busy_) co_await idle_.wait();
                   },
                   .reopen = [this]() -> Status {
                     ++reopened_;
                     if (again_) care_.get_well();
                     return again_;
                   }}};
};

TEST_F(StoreCareTest, AStoreThatIsThereIsLeftAlone) {
  look_twice();
  EXPECT_FALSE(care_.ailment());
  EXPECT_EQ(reopened_, 0u);
  EXPECT_TRUE(stopped_.empty());
}

TEST_F(StoreCareTest, AMislaidStoreStopsTheServerUntilItIsOpenedAgain) {
  there_ = fail(Errc::damaged_vault, "slots is gone");
  care_.look_after();
  ASSERT_TRUE(care_.ailment());
  EXPECT_EQ(care_.ailment()->message,
            "server 2: slots is gone; put the newest copy of its store back");
  EXPECT_EQ(stopped_.size(), 1u);
  again_ = fail(Errc::wrong_volume, "another one");
  put_store_back();
  look_twice();
  EXPECT_EQ(reopened_, 1u);
  EXPECT_EQ(care_.ailment()->message, "another one");
  there_ = again_ = {};
  look_twice();
  EXPECT_EQ(reopened_, 2u);
  EXPECT_FALSE(care_.ailment());
}

TEST_F(StoreCareTest, NothingIsOpenedWhileTheStoreIsUsed) {
  put_store_back();
  care_.fall_ill({Errc::failed, "ill"});
  busy_ = true;
  look_twice();
  look_twice();
  EXPECT_EQ(reopened_, 0u);
  busy_ = false;
  idle_.notify_all();
  settle();
  EXPECT_EQ(reopened_, 1u);
  EXPECT_FALSE(care_.ailment());
}

// ---- the root buffer
// -----------------------------------------------------------------------------

class RootBufferTest : public testing::Test {
 protected:
  static constexpr unsigned kEvery = 2;
  void SetUp() override {
    for (std::uint16_t slot = 0; slot < 3; ++slot)
      ASSERT_TRUE(store_.write_slot(kRootBuffer, slot, Bytes(40, 7), slot + 10u));
    ASSERT_TRUE(buffer_.open(store_, 2 * kEvery));
  }
  BucketStore store_{test::memory_file(std::make_shared<test::MemoryDisk>()), {}, 4, 4, 40, 0};
  RootBuffer buffer_{3};
};

TEST_F(RootBufferTest, HasWhatTheStoreHolds) {
  EXPECT_EQ(buffer_[1].stamp, 11u);
  EXPECT_EQ(buffer_[1].durable, 11u);
  EXPECT_TRUE(buffer_.check(1));
  EXPECT_EQ(buffer_.check(3).error().message, "root slot 3 of server 3 is lost");
}

TEST_F(RootBufferTest, DistrustsSlotsThatAreNotWhatTheClientKnows) {
  buffer_.distrust(0, kEvery, {10, 99, 0});  // the 0 says that the client knows of no write there
  EXPECT_EQ(buffer_[0].stamp, 10u);
  EXPECT_EQ(buffer_[1].stamp, 0u);
  EXPECT_EQ(buffer_[2].stamp, 12u);
}

TEST_F(RootBufferTest, KeepsOnlyWhatTheClientKnows) {
  buffer_.keep_only(0, kEvery, {10, 99});
  EXPECT_EQ(buffer_[0].stamp, 10u);
  EXPECT_EQ(buffer_[1].stamp, 0u);
  EXPECT_EQ(buffer_[2].stamp, 0u);
}

}  // namespace
}  // namespace s3oram
