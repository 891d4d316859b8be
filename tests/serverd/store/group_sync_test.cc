// Tests that one sync serves many writes, and which writes a failed sync fails.
#include "serverd/store/group_sync.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "tests/harness/memory_file.h"

namespace s3oram {
namespace {

using test::MemoryDisk;

class GroupSyncTest : public testing::Test {
 protected:
  using Outcome = std::shared_ptr<std::optional<Status>>;
  Outcome ask() { return ask(sync_.begin()); }
  Outcome ask(std::uint64_t begun) {
    auto outcome = std::make_shared<std::optional<Status>>();
    spawn(context_.get_executor(),
          [](GroupSync& sync, std::uint64_t since, Outcome out) -> Task<void> {
            auto status = co_await sync.sync(since);
            out->emplace(std::move(status));
          }(sync_, begun, outcome));
    return outcome;
  }
  /// Writes a slot of the root buffer, if `works`.
  Outcome write(std::uint16_t slot, bool works = true) {
    auto outcome = std::make_shared<std::optional<Status>>();
    spawn(context_.get_executor(),
          [](GroupSync& sync, std::function<Status()> work,
             Outcome out) -> Task<void> {
            auto status = co_await sync.write(std::move(work));
            out->emplace(std::move(status));
          }(
                              sync_,
                              [this, slot, works]() -> Status {
                                if (!works) return fail(Errc::disk_full, "the disk is full");
                                return store_.write_slot(kRootBuffer, slot, Bytes(40, 7), 1);
                              },
                              outcome));
    return outcome;
  }
  void settle() {
    context_.restart();
    context_.poll();
  }

  asio::io_context context_{1};
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
  BucketStore store_{test::memory_file(disk_), {}, 2, 4, 40, 0};
  GroupSync sync_{context_.get_executor(), context_.get_executor(), store_};
};

TEST_F(GroupSyncTest, OneSyncServesMany) {
  std::vector<Outcome> outcomes;
  for (int i = 0; i < 100; ++i) outcomes.push_back(ask());
  settle();
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(*outcome);
    EXPECT_TRUE(**outcome);
  }
  EXPECT_GE(disk_->syncs, 1);
  EXPECT_LE(disk_->syncs, 2) << "one under way, and one for all requests that came meanwhile";
}

TEST_F(GroupSyncTest, EveryOneAfterTheOtherSyncsAnew) {
  for (int i = 1; i <= 5; ++i) {
    const auto outcome = ask();
    settle();
    ASSERT_TRUE(*outcome && **outcome);
    EXPECT_EQ(disk_->syncs, i);
  }
}

// A sync that has begun may have missed later writes.
TEST_F(GroupSyncTest, WhoAsksDuringASyncWaitsForTheNext) {
  Outcome late;
  std::optional<int> syncs_when_late_was_done;
  const auto watch = [&](Outcome& outcome) {
    spawn(context_.get_executor(),
          [](GroupSync& sync, Outcome out, MemoryDisk& disk,
             std::optional<int>& when) -> Task<void> {
            auto status = co_await sync.sync(sync.begin());
            when = disk.syncs;
            out->emplace(std::move(status));
          }(sync_, outcome = std::make_shared<std::optional<Status>>(), *disk_,
                                       syncs_when_late_was_done));
  };
  disk_->during_sync = [&] { watch(late); };
  const auto early = ask();
  // The late request's coroutine may start only after the sync during which it was made.
  settle();
  ASSERT_TRUE(*early && **early);
  ASSERT_TRUE(*late && **late);
  EXPECT_EQ(disk_->syncs, 2);
  EXPECT_EQ(syncs_when_late_was_done, 2);
}

// Data that was written before a failed sync may be lost even though the next sync succeeds.
TEST_F(GroupSyncTest, AFailedSyncFailsAllThatWasWrittenBeforeIt) {
  const auto before = ask();
  settle();
  ASSERT_TRUE(**before);
  disk_->fail_syncs = true;
  const auto begun = sync_.begin();
  Outcome during;
  disk_->during_sync = [&] { during = ask(begun); };
  const auto failed = ask(begun);
  settle();
  disk_->fail_syncs = false;  // the kernel forgets its failure; the server does not
  const auto after = ask(begun);
  settle();
  for (const auto& outcome : {failed, during, after}) {
    ASSERT_TRUE(*outcome);
    ASSERT_FALSE(**outcome);
    EXPECT_EQ((**outcome).error().message, "the disk does not sync");
  }
  const auto again = ask();  // writes once more
  settle();
  ASSERT_TRUE(*again);
  EXPECT_TRUE(**again);
}

TEST_F(GroupSyncTest, WritesGoBeforeTheSyncThatTheyShare) {
  int writes_before_sync = 0;
  disk_->during_sync = [&] { writes_before_sync = disk_->writes; };
  std::vector<Outcome> outcomes;
  for (std::uint16_t slot = 0; slot < 50; ++slot) outcomes.push_back(write(slot));
  settle();
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(*outcome);
    EXPECT_TRUE(**outcome);
  }
  EXPECT_EQ(disk_->writes, 50);
  EXPECT_LE(disk_->syncs, 2);
  EXPECT_GE(writes_before_sync, 1);
}

TEST_F(GroupSyncTest, NoWriteBeginsBeforeWhatMustBeDurableFirst) {
  bool works = false;
  GroupSync sync(context_.get_executor(), context_.get_executor(), store_, nullptr,
                 [&]() -> Status {
                   if (!works) return fail(Errc::failed, "the other file does not sync");
                   return {};
                 });
  const auto outcome_of_write = [&] {
    auto outcome = std::make_shared<std::optional<Status>>();
    spawn(context_.get_executor(),
          [](GroupSync& of, BucketStore& store, Outcome out) -> Task<void> {
            auto status = co_await of.write(
                [&store] { return store.write_slot(kRootBuffer, 0, Bytes(40, 7), 1); });
            out->emplace(std::move(status));
          }(sync, store_, outcome));
    settle();
    return outcome;
  };
  EXPECT_FALSE(outcome_of_write()->value());
  EXPECT_EQ(disk_->writes, 0);
  works = true;
  EXPECT_TRUE(outcome_of_write()->value());
  EXPECT_EQ(disk_->writes, 1);
}

TEST_F(GroupSyncTest, AWriteThatIsAskedForDuringASyncHasOneOfItsOwn) {
  Outcome late;
  disk_->during_sync = [&] { late = write(2); };
  const auto early = write(1);
  settle();
  ASSERT_TRUE(*early && **early);
  ASSERT_TRUE(*late && **late);
  EXPECT_EQ(disk_->syncs, 2);
}

TEST_F(GroupSyncTest, AFailedWriteFailsAlone) {
  const auto first = write(1), failing = write(2, false), last = write(3);
  settle();
  ASSERT_TRUE(*first && *failing && *last);
  EXPECT_TRUE(**first);
  EXPECT_TRUE(**last);
  ASSERT_FALSE(**failing);
  EXPECT_EQ((**failing).error().code, Errc::disk_full);
}

// The next sync would succeed, because the kernel has forgotten what the first could not write.
TEST_F(GroupSyncTest, AFailedSyncIsNotAskedForAgain) {
  disk_->during_sync = [this] {
    disk_->fail_syncs = true;
    disk_->during_sync = [this] { disk_->fail_syncs = false; };
  };
  const auto outcome = write(1);
  settle();
  ASSERT_TRUE(*outcome);
  EXPECT_FALSE(**outcome);
  EXPECT_EQ(disk_->syncs, 1);
}

TEST_F(GroupSyncTest, AFailedSyncFailsItsWritesAndNoLaterOnes) {
  disk_->fail_syncs = true;
  const auto first = write(1), second = write(2);
  settle();
  ASSERT_TRUE(*first && *second);
  EXPECT_FALSE(**first);
  EXPECT_FALSE(**second);
  disk_->fail_syncs = false;
  const auto again = write(1);
  settle();
  ASSERT_TRUE(*again);
  EXPECT_TRUE(**again);
}

}  // namespace
}  // namespace s3oram
