// One bad row in a ring's tables costs only its block, or the blocks of its bucket.
#include "oramcore/schemes/ring/client/ring_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "oramcore/client/state_check.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram::ring {
namespace {

const VolumeParams kVolume{.scheme = {0, 1},
                           .block_size = 4096,
                           .bucket_size = 4,
                           .evict_every = 3,
                           .evictor = Evictor::polynomial,
                           .privacy = Privacy::computational,
                           .first_height = 2,
                           .top_levels = 2};

Place in_tree(Leaf leaf, unsigned level, std::uint16_t slot, std::uint64_t version) {
  return {.kind = Place::Kind::tree,
          .leaf = leaf,
          .version = version,
          .level = static_cast<std::uint8_t>(level),
          .slot = slot};
}
Place in_top(CacheSlot slot, Turn turn, std::uint64_t version) {
  return {
      .kind = Place::Kind::top, .leaf = 1, .version = version, .cache_slot = slot, .turn = turn};
}

class RingCheckTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GOOD(RingState::create(file(), kVolume.first_height));
    auto state = RingState::open(file());
    ASSERT_GOOD(state);
    RingTree tree;
    tree.tree_version = 3;
    tree.height = 3;
    tree.written = 12;
    tree.evictions = 3;
    tree.synced = 9;
    RingChanges changes;
    changes.places[1] = in_tree(1, 2, 0, 11);
    changes.places[2] = in_tree(5, 3, 1, 12);
    changes.places[3] = in_top(0, 9, 13);
    changes.places[4] = in_top(1, 10, 14);
    changes.places[5] = {.kind = Place::Kind::lost, .version = 15};
    changes.buckets[bucket_on_path(1, 2)] = {77, 3};
    changes.buckets[bucket_on_path(5, 3)] = {78, 0};
    changes.records[12] = TurnRecord{3, 1, {{bucket_on_path(1, 2), 77, 9}}};
    changes.unreadable[2] = true;
    ASSERT_GOOD(state->commit(tree, changes, {}));
  }
  std::filesystem::path file() const { return directory_ / "vault.db"; }

  RingCheck check(const std::string& sql = "") {
    auto database = Database::open(file().string(), Database::Mode::read_write);
    EXPECT_TRUE(database);
    EXPECT_TRUE(sql.empty() || database->execute(sql)) << sql;
    return read_ring(*database, kVolume);
  }
  /// Damages a row. Exactly these blocks are lost, with these kinds of findings; a repair drops the
  /// bad rows, and then nothing is found.
  void expect_lost(const std::string& sql, std::vector<BlockId> lost, std::set<std::string> kinds) {
    const RingCheck found = check(sql);
    EXPECT_FALSE(found.refused) << sql;
    std::set<std::string> told;
    for (const Finding& finding : found.findings) told.insert(finding.kind);
    EXPECT_EQ(told, kinds) << sql;
    std::vector<BlockId> left;
    for (BlockId block = 1; block <= 5; ++block)
      if (std::ranges::find(lost, block) == lost.end()) left.push_back(block);
    EXPECT_EQ(found.state.places.blocks(), left) << sql;
    auto database = Database::open(file().string(), Database::Mode::read_write);
    ASSERT_GOOD(database);
    ASSERT_GOOD(database->transact("repair", [&] { return repair_ring(*database, found); }));
    const RingCheck again = read_ring(*database, kVolume);
    EXPECT_FALSE(again.refused) << sql;
    EXPECT_TRUE(again.findings.empty()) << sql << ": " << again.findings.front().what;
    EXPECT_EQ(again.state.places.blocks(), left) << sql;
  }
  void expect_refused(const std::string& sql) {
    const RingCheck found = check(sql);
    ASSERT_TRUE(found.refused) << sql;
    EXPECT_EQ(found.refused->code, Errc::damaged_vault) << sql;
    ASSERT_EQ(found.findings.size(), 1u) << sql;
    EXPECT_FALSE(found.findings[0].mendable()) << sql;
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(RingCheckTest, WhatIsSoundIsReadWhole) {
  const RingCheck found = check();
  EXPECT_FALSE(found.refused);
  EXPECT_TRUE(found.findings.empty());
  EXPECT_EQ(found.state.places.blocks(), (std::vector<BlockId>{1, 2, 3, 4, 5}));
  EXPECT_EQ(found.state.places.get(2), in_tree(5, 3, 1, 12));
  EXPECT_EQ(found.state.places.get(4), in_top(1, 10, 14));
  EXPECT_EQ(found.state.turns(), 13u);
  EXPECT_EQ(found.state.unreadable, std::set<BlockId>{2});
  EXPECT_EQ(found.state.tree.synced, 9u);
}

// In a vault that has moved, blocks keep the numbers from the old volume.
TEST_F(RingCheckTest, ALowTreeHoldsBlocksOfHighNumbers) {
  constexpr BlockId kHigh = 1 << 20;
  const RingCheck found =
      check(fmt::format("UPDATE ring_blocks SET block = {} WHERE block = 3", kHigh));
  EXPECT_TRUE(found.findings.empty()) << found.findings[0].what;
  EXPECT_EQ(found.state.places.blocks(), (std::vector<BlockId>{1, 2, 4, 5, kHigh}));
}
TEST_F(RingCheckTest, ANumberThatNoVolumeOfTheHeightHasCostsItsBlock) {
  const std::int64_t most = most_blocks(3, kVolume);
  expect_lost(fmt::format("UPDATE ring_blocks SET block = {} WHERE block = 3", most), {3},
              {"bad-position"});
}

TEST_F(RingCheckTest, ABadPlaceCostsItsBlock) {
  expect_lost("UPDATE ring_blocks SET place = 9 << 16 WHERE block = 1", {1}, {"bad-position"});
}
TEST_F(RingCheckTest, ABadKindCostsItsBlock) {
  expect_lost("UPDATE ring_blocks SET kind = 0 WHERE block = 2", {2}, {"bad-position"});
}
TEST_F(RingCheckTest, ASlotOfTheCacheFarAwayCostsItsBlock) {
  expect_lost("UPDATE ring_blocks SET place = 1 << 31 WHERE block = 3", {3}, {"bad-position"});
}
TEST_F(RingCheckTest, ALeafThatIsNoneCostsItsBlock) {
  expect_lost("UPDATE ring_blocks SET leaf = -1 WHERE block = 4", {4}, {"bad-position"});
}
TEST_F(RingCheckTest, OfTwoInOneSlotTheNewerStays) {
  expect_lost("UPDATE ring_blocks SET kind = 1, place = 2 << 16, leaf = 1 WHERE block = 2", {1},
              {"bad-position"});
}
TEST_F(RingCheckTest, OfTwoInOneSlotOfTheCacheTheNewerStays) {
  expect_lost("UPDATE ring_blocks SET place = 1 WHERE block = 3", {3}, {"bad-position"});
}
TEST_F(RingCheckTest, OfTwoOfOneTurnTheNewerStays) {
  expect_lost("UPDATE ring_blocks SET turn = 9 WHERE block = 4", {3}, {"bad-position"});
}
TEST_F(RingCheckTest, ALostBucketCostsItsBlocks) {
  expect_lost("DELETE FROM ring_buckets WHERE stamp = 77", {1}, {"bad-position"});
}
TEST_F(RingCheckTest, ABadBucketCostsItsBlocks) {
  expect_lost("UPDATE ring_buckets SET touches = 1000 WHERE stamp = 78", {2},
              {"bad-bucket", "bad-position"});
}
TEST_F(RingCheckTest, ABadRecordCostsNothing) {
  expect_lost("UPDATE ring_accesses SET record = x'00'", {}, {"intent"});
}
TEST_F(RingCheckTest, ATurnThatNobodyReservedCostsNothing) {
  expect_lost("UPDATE ring_accesses SET turn = 1 << 40", {}, {"intent"});
}
TEST_F(RingCheckTest, WithoutItsNumbersOrSessionsItIsRefused) {
  expect_refused("UPDATE ring_tree SET height = 31");
}
TEST_F(RingCheckTest, NumbersThatContradictEachOtherAreRefused) {
  expect_refused("UPDATE ring_tree SET synced = 13");
}
TEST_F(RingCheckTest, ATreeWithoutARowIsRefused) { expect_refused("DELETE FROM ring_tree"); }
TEST_F(RingCheckTest, WithoutASessionItIsRefused) { expect_refused("DELETE FROM sessions"); }

TEST_F(RingCheckTest, ANewerFormatIsRefusedAsThat) {
  const RingCheck found = check("UPDATE ring_tree SET format = 99");
  ASSERT_TRUE(found.refused);
  EXPECT_EQ(found.refused->code, Errc::unsupported);
}

}  // namespace
}  // namespace s3oram::ring
