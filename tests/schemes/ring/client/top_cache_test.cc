// The slots of top.cache. None is used again before the commit that frees it.
#include "oramcore/schemes/ring/client/top_cache.h"

#include <gtest/gtest.h>

#include "oramcore/schemes/ring/client/cache_doubt.h"
#include "tests/base/good.h"
#include "tests/harness/memory_file.h"

namespace s3oram::ring {
namespace {

class TopCacheTest : public testing::Test {
 protected:
  std::shared_ptr<s3oram::test::MemoryDisk> disk = std::make_shared<s3oram::test::MemoryDisk>();
  TopCache cache{s3oram::test::memory_file(disk), 8};
};

TEST_F(TopCacheTest, KeepsWhatIsWritten) {
  const CacheSlot first = cache.take(), second = cache.take();
  EXPECT_NE(first, second);
  ASSERT_GOOD(cache.write(second, Bytes(8, 2)));
  ASSERT_GOOD(cache.write(first, Bytes(8, 1)));
  EXPECT_EQ(*cache.read(first), Bytes(8, 1));
  EXPECT_EQ(*cache.read(second), Bytes(8, 2));
  EXPECT_EQ(cache.in_use(), 2u);
}

TEST_F(TopCacheTest, ASlotIsUsedAgainOnlyAfterTheCommitThatFreedIt) {
  const CacheSlot slot = cache.take();
  cache.give_back(slot);
  EXPECT_NE(cache.take(), slot) << "the commit has not begun";
  auto freed = cache.begin_commit();
  EXPECT_NE(cache.take(), slot) << "it has not ended";
  cache.not_committed(std::move(freed));
  EXPECT_NE(cache.take(), slot) << "it has failed";
  cache.committed(cache.begin_commit());
  EXPECT_EQ(cache.take(), slot);
}

TEST_F(TopCacheTest, ASlotThatIsHeldIsNotFreedBeforeAllHaveLetItGo) {
  const CacheSlot slot = cache.take();
  cache.hold(slot);
  cache.hold(slot);
  cache.give_back(slot);
  cache.let_go(slot);
  EXPECT_EQ(cache.begin_commit().count(slot), 0u) << "it is still held once";
  cache.let_go(slot);
  EXPECT_EQ(cache.begin_commit().count(slot), 1u);
}

TEST_F(TopCacheTest, ASlotThatWasHeldIsKeptIfNobodyGaveItBack) {
  const CacheSlot slot = cache.take();
  cache.hold(slot);
  cache.let_go(slot);
  EXPECT_TRUE(cache.begin_commit().empty());
}

TEST_F(TopCacheTest, TheSlotsInUseAreNotTaken) {
  cache.use(3);
  cache.use(1);
  EXPECT_EQ(cache.take(), 0u);
  EXPECT_EQ(cache.take(), 2u);
  EXPECT_EQ(cache.take(), 4u);
}

TEST_F(TopCacheTest, TellsOfAFailingDisk) {
  const CacheSlot slot = cache.take();
  disk->fail_writes = true;
  EXPECT_FALSE(cache.write(slot, Bytes(8)));
  disk->fail_syncs = true;
  EXPECT_FALSE(cache.sync());
}

TEST(CacheDoubtTest, EndsWhenEverythingWrittenBeforeTheFailureWasWrittenAgain) {
  CacheDoubt doubt(8);
  EXPECT_FALSE(doubt.failure());
  EXPECT_FALSE(doubt.passes());
  doubt.failed({Errc::failed, "a bad disk"}, 20);
  EXPECT_FALSE(doubt.passes());
  doubt.synced(19);
  EXPECT_TRUE(doubt.failure());
  doubt.synced(20);
  EXPECT_FALSE(doubt.failure());
}

TEST(CacheDoubtTest, HasMoreAndMoreOpportunitiesPass) {
  CacheDoubt doubt(8);
  std::vector<int> passed;
  for (int failures = 0; failures < 6; ++failures) {
    doubt.failed({Errc::failed, "a bad disk"}, 20);
    int count = 0;
    while (doubt.passes()) ++count;
    passed.push_back(count);
  }
  EXPECT_EQ(passed, (std::vector{0, 1, 3, 7, 8, 8}));
}

}  // namespace
}  // namespace s3oram::ring
