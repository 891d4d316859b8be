// One bad row of the client's tables costs only its block.
#include "oramcore/client/state_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

using Row = StateChanges::Row;

class CheckTest : public testing::Test {
 protected:
  static constexpr unsigned kHeight = 3;
  static constexpr WriteNumber kFirst = first_write_number(7, 10);  // its root slot is 10
  static VolumeParams params() { return {Scheme{1, 3}, 4096, 20, 10}; }

  CheckTest() {
    EXPECT_TRUE(ClientState::create(file()));
    auto state = ClientState::open(file());
    EXPECT_TRUE(state);
    TreeState tree{.tree_version = 7,
                   .height = kHeight,
                   .written = kFirst + 3,
                   .last_decided = {.eviction = 6}};
    StateChanges changes;
    changes.positions[1] = row({Position::Kind::tree, 5, kHeight, 2, 11});
    changes.positions[2] = row({Position::Kind::tree, 6, 0, 11, kFirst + 1});
    changes.positions[3] = row({Position::Kind::tree, 7, 2, 19, 13});
    changes.positions[4] = row({Position::Kind::stash, 9, 0, 0, 14});
    // Blocks lie where they were written, in slots that other accesses have since overwritten, and
    // where evictions have put them. The first row is older than the last write of block 6.
    changes.positions[5] = row({Position::Kind::tree, 5, 0, 10, 15});
    changes.positions[6] = row({Position::Kind::tree, 1, 0, 10, 16});
    changes.positions[7] = row({Position::Kind::tree, 1, 0, 11, 17});
    changes.buckets[bucket_on_path(5, 3)] = {true, {{1, 2, 0, 11}, {5, 3, 0, 15}, {6, 4, 0, 1}}};
    changes.buckets[bucket_on_path(7, 2)] = {false, {{3, 19, 0, 13}}};
    changes.buckets[bucket_on_path(1, 2)] = {false, {{6, 0, 0, 16}, {7, 1, 0, 17}}};
    changes.stash[4] = Bytes(params().slot_size());
    for (WriteNumber write_number = kFirst; write_number < kFirst + 4; ++write_number)
      changes.access_records[root_slot(write_number, 10)] = {
          .write_number = write_number, .block = 0, .leaf = 3, .access = write_number};
    EXPECT_TRUE(state->commit(tree, changes, {}));
  }

  static Row row(const Position& position) {
    return {PositionMap::pack(position, kHeight), position.version};
  }
  static std::string put(BlockId block, const Position& position) {
    return fmt::format("INSERT OR REPLACE INTO positions VALUES ({}, {}, {})", block,
                       static_cast<std::int64_t>(PositionMap::pack(position, kHeight)),
                       position.version);
  }
  static std::string put_row(BucketIndex bucket, const BucketRow& row) {
    std::string bytes;
    for (const std::uint8_t byte : encode_row(bucket, row)) bytes += fmt::format("{:02x}", byte);
    return fmt::format("INSERT OR REPLACE INTO buckets VALUES ({}, x'{}')", bucket, bytes);
  }
  static BucketIndex bucket_of(const StateCheck& found, BlockId block) {
    const Position position = found.state.positions.get(block);
    return bucket_on_path(position.leaf, position.level);
  }
  std::filesystem::path file() const { return directory_ / "vault.db"; }
  Database open() const {
    auto database = Database::open(file().string(), Database::Mode::read_write);
    EXPECT_TRUE(database);
    return std::move(*database);
  }
  void alter(const std::string& sql) const {
    const Status done = open().execute(sql);
    EXPECT_TRUE(done) << sql << ": " << done.error().message;
  }
  StateCheck check() const {
    Database database = open();
    StateCheck found = read_state(database, params());
    check_further(found, params());
    return found;
  }
  void repair() const {
    Database database = open();
    StateCheck found = read_state(database, params());
    check_further(found, params());
    EXPECT_TRUE(repair_state(database, params(), found));
  }

  TemporaryDirectory directory_;
};

TEST_F(CheckTest, SoundTablesHaveNoFindings) {
  const StateCheck found = check();
  EXPECT_FALSE(found.refused);
  EXPECT_TRUE(found.findings.empty()) << found.findings[0].what;
  EXPECT_EQ(found.state.positions.blocks(), (std::vector<BlockId>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(bucket_of(found, 5), bucket_on_path(5, 3));
  EXPECT_EQ(bucket_of(found, 6), bucket_on_path(1, 2));
  EXPECT_EQ(found.state.positions.get(7).slot, 1);
  EXPECT_EQ(found.state.access_records.size(), 4u);
}

TEST_F(CheckTest, ABadRowCostsItsBlock) {
  const std::pair<std::string, std::set<BlockId>> damages[] = {
      {put(1, {}), {1}},
      {put(1, {Position::Kind::tree, 5, kHeight, 2, 12}), {1}},
      {put(1, {Position::Kind::tree, 5 + 1, kHeight, 2, 11}), {1}},
      {put(2, {Position::Kind::tree, 6, 0, 13, kFirst + 1}), {2}},
      {put(2, {Position::Kind::tree, 6, 0, 11, kFirst}), {2}},
      {put(3, {Position::Kind::stash, 6, 0, 0, 12}), {3}},
      {"UPDATE positions SET position = 'x' WHERE block = 3", {3}},
      {"UPDATE positions SET version = x'00' WHERE block = 3", {3}},
      {"UPDATE positions SET block = -1 WHERE block = 3", {3}},
      {"UPDATE positions SET block = 1 << 32 WHERE block = 3", {3}},
      {"UPDATE positions SET block = 1 << 31 WHERE block = 3", {3}},
      {"UPDATE positions SET position = position + 1 WHERE block = 5", {5}},
      {"UPDATE positions SET version = 16 WHERE block = 7", {7}},
      {"DELETE FROM buckets WHERE bucket = 5", {6, 7}},
      {"DELETE FROM buckets WHERE bucket = 13", {1, 5}},
      {"UPDATE buckets SET blocks = x'00' WHERE bucket = 13", {1, 5}},
      {"UPDATE buckets SET blocks = 'x' WHERE bucket = 13", {1, 5}},
      {"UPDATE buckets SET bucket = bucket << 20 WHERE bucket = 5", {6, 7}},
      {"UPDATE buckets SET blocks = (SELECT blocks FROM buckets WHERE bucket = 5) WHERE bucket = "
       "13",
       {1, 5}},
      {put_row(bucket_on_path(1, 3), {true, {{7, 0, 0, 17}}}), {7}},
      {put_row(bucket_on_path(5, 3), {true, {{1, 2, 0, 11}, {5, 20, 0, 15}}}), {5}},
      {"DELETE FROM stash", {4}},
      {"UPDATE stash SET block = -4", {4}},
  };
  const auto kept = directory_ / "kept.db";
  std::filesystem::copy_file(file(), kept);
  for (const auto& [damage, lost] : damages) {
    std::vector<BlockId> left;
    for (BlockId block = 1; block <= 7; ++block)
      if (!lost.contains(block)) left.push_back(block);
    std::filesystem::copy_file(kept, file(), std::filesystem::copy_options::overwrite_existing);
    alter(damage);
    // A volume that is opened works without these rows.
    {
      auto state = ClientState::open(file());
      ASSERT_TRUE(state);
      Findings findings;
      const auto loaded = state->load(params(), &findings);
      ASSERT_TRUE(loaded) << damage << ": " << loaded.error().message;
      EXPECT_EQ(loaded->positions.blocks(), left) << damage;
      EXPECT_FALSE(findings.empty()) << damage;
    }
    const StateCheck found = check();
    EXPECT_EQ(found.state.positions.blocks(), left) << damage;
    EXPECT_TRUE(std::all_of(found.findings.begin(), found.findings.end(),
                            [](const Finding& finding) { return finding.mendable(); }))
        << damage;
    repair();
    const StateCheck again = check();
    EXPECT_TRUE(again.findings.empty()) << damage << ": " << again.findings[0].what;
    EXPECT_EQ(again.state.positions.blocks(), left) << damage;
  }
}

// In a vault that has moved, blocks keep the numbers from the old volume.
TEST_F(CheckTest, ALowTreeHoldsBlocksOfHighNumbers) {
  constexpr BlockId kHigh = 1 << 20;
  ASSERT_GT(kHigh, 100 * capacity(kHeight, params().evict_every));
  alter(fmt::format("UPDATE positions SET block = {} WHERE block = 3", kHigh));
  alter(put_row(bucket_on_path(7, 2), {false, {{kHigh, 19, 0, 13}}}));
  const StateCheck found = check();
  EXPECT_TRUE(found.findings.empty()) << found.findings[0].what;
  EXPECT_EQ(found.state.positions.blocks(), (std::vector<BlockId>{1, 2, 4, 5, 6, 7, kHigh}));
}

// A number far too large would need memory for all numbers before it.
TEST_F(CheckTest, ABlockNumberThatNoVolumeOfTheHeightHasIsDamage) {
  const std::int64_t most = most_blocks(kHeight, params());
  EXPECT_GE(most, std::int64_t{1} << 23);
  EXPECT_LT(most, std::int64_t{1} << 24);
  alter(fmt::format("UPDATE positions SET block = {} WHERE block = 3", most));
  alter(put_row(bucket_on_path(7, 2), {false, {{static_cast<BlockId>(most), 19, 0, 13}}}));
  const StateCheck found = check();
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_NE(found.findings[0].what.find("too large"), std::string::npos) << found.findings[0].what;
  EXPECT_EQ(found.state.positions.blocks(), (std::vector<BlockId>{1, 2, 4, 5, 6, 7}));
}

TEST_F(CheckTest, OfTwoBlocksInOneSlotTheNewerStays) {
  alter(put(8, {Position::Kind::tree, 5 + 8, kHeight, 2, 99}));  // 13 and 5: the same leaf bucket
  alter(put_row(bucket_on_path(5, 3), {true, {{1, 2, 0, 11}, {5, 3, 0, 15}, {8, 2, 0, 99}}}));
  {
    auto state = ClientState::open(file());
    ASSERT_TRUE(state);
    const auto loaded = state->load(params());
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->positions.blocks(), (std::vector<BlockId>{2, 3, 4, 5, 6, 7, 8}));
  }
  const StateCheck found = check();
  EXPECT_EQ(found.state.positions.blocks(), (std::vector<BlockId>{2, 3, 4, 5, 6, 7, 8}));
  repair();
  EXPECT_TRUE(check().findings.empty());
}

// An older place must not come back when the row with the newer one is lost.
TEST_F(CheckTest, APlaceInABucketCountsOnlyIfTheBucketListsIt) {
  alter(put(3, {Position::Kind::tree, 7, 1, 4, 13}));  // before an eviction
  EXPECT_EQ(bucket_of(check(), 3), bucket_on_path(7, 2));
  const std::vector<BlockId> others{1, 2, 4, 5, 6, 7};
  alter("UPDATE buckets SET blocks = x'00' WHERE bucket = 7");
  EXPECT_EQ(check().state.positions.blocks(), others);
  alter(put_row(bucket_on_path(7, 2), {false, {{99, 1, 0, 99}}}));  // a later eviction rewrote it
  EXPECT_EQ(check().state.positions.blocks(), others);
}

TEST_F(CheckTest, ARootHasAStashPartWithTheShuffleEvictor) {
  VolumeParams shuffle = params();
  shuffle.evictor = Evictor::shuffle;
  shuffle.stash_slots = 40;  // slots 20 to 59
  shuffle.privacy = Privacy::computational;
  alter(put(8, {Position::Kind::tree, 5, 0, 20, 98}));
  alter(put(9, {Position::Kind::tree, 5, 0, 59, 99}));
  alter(put_row(kRoot, {false, {{8, 20, 0, 98}, {9, 59, 0, 99}}}));
  const auto blocks = [&](const VolumeParams& volume) {
    Database database = open();
    return read_state(database, volume).state.positions.blocks();
  };
  EXPECT_EQ(blocks(shuffle), (std::vector<BlockId>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(blocks(params()), (std::vector<BlockId>{1, 2, 3, 4, 5, 6, 7})) << "without one";
  alter(put_row(kRoot, {false, {{8, 20, 0, 98}, {9, 60, 0, 99}}}));
  EXPECT_EQ(blocks(shuffle), (std::vector<BlockId>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(CheckTest, NeighboursInABucketAreSound) {
  alter(put(8, {Position::Kind::tree, 5, kHeight, 4, 99}));
  alter(put(9, {Position::Kind::tree, 5 + 1, kHeight, 2, 99}));
  alter(put_row(bucket_on_path(5, 3), {true, {{1, 2, 0, 11}, {5, 3, 0, 15}, {8, 4, 0, 99}}}));
  alter(put_row(bucket_on_path(5 + 1, 3), {true, {{9, 2, 0, 99}}}));
  EXPECT_TRUE(check().findings.empty());
}

TEST_F(CheckTest, SealedBlocksOfAWrongSizeAreLost) {
  for (const char* sealed : {"x''", "x'0102'"}) {
    alter(fmt::format("UPDATE stash SET sealed = {}", sealed));
    const StateCheck found = check();
    EXPECT_EQ(found.findings.size(), 1u);
    EXPECT_EQ(found.state.positions.blocks(), (std::vector<BlockId>{1, 2, 3, 5, 6, 7}));
  }
  repair();
  EXPECT_TRUE(check().findings.empty());
}

TEST_F(CheckTest, AccessRecordsAreMended) {
  for (const char* damage :
       {"DELETE FROM intents WHERE slot = 11", "UPDATE intents SET leaf = 1 << 41 WHERE slot = 12",
        "UPDATE intents SET slot = 20 WHERE slot = 13",
        "UPDATE intents SET turn = 90 WHERE slot = 10", "UPDATE intents SET access = 'x'"}) {
    alter(damage);
    {
      auto state = ClientState::open(file());
      EXPECT_TRUE(state && state->load(params())) << damage;
    }
    EXPECT_FALSE(check().findings.empty()) << damage;
    repair();
    EXPECT_TRUE(check().findings.empty()) << damage;
  }
}

// An unknown row proves nothing: neither that a write is unknown, nor that there was none.
TEST_F(CheckTest, ABadAccessRecordSaysNothingOfWhoWroteItsSlot) {
  EXPECT_EQ(check().state.root[12], kFirst + 2);
  alter("UPDATE intents SET leaf = 1 << 41 WHERE slot = 12; DELETE FROM intents WHERE slot = 11");
  const StateCheck found = check();
  EXPECT_EQ(found.state.root[11], 0u);
  EXPECT_EQ(found.state.root[12], 0u);
  EXPECT_EQ(found.state.root[13], kFirst + 3);
  EXPECT_FALSE(found.state.root[14]) << "never used";
}

// The servers know these writes: see VolumeSessions::compare_with_servers().
TEST_F(CheckTest, TheLastAcknowledgedAccessRecordMayBeMissing) {
  alter("DELETE FROM intents WHERE slot >= 12");  // turns kFirst + 2, acknowledged, and + 3
  const StateCheck found = check();
  EXPECT_TRUE(found.findings.empty());
  ASSERT_EQ(found.state.access_records.size(), 3u);
  EXPECT_EQ(found.state.access_records[2].write_number, kFirst + 2);
  EXPECT_EQ(found.state.access_records[2].access, 0u);
  EXPECT_EQ(found.state.root[12], 0u);
}

// The format is raised only with rows that make sense for the volume.
TEST_F(CheckTest, WhatIsRefusedIsNotRaised) {
  for (const char* damage : {"UPDATE tree SET height = 7", "UPDATE tree SET written = 69"}) {
    alter(
        fmt::format("DROP TABLE IF EXISTS before; CREATE TABLE before AS SELECT * FROM tree;"
                    "UPDATE tree SET format = 5; {}",
                    damage));
    {
      auto state = ClientState::open(file());
      ASSERT_TRUE(state);
      EXPECT_FALSE(state->load(params()));
    }
    auto format = open();
    auto row = format.prepare("SELECT format FROM tree");
    ASSERT_TRUE(row && *row->step());
    EXPECT_EQ(row->integer(0), 5);
    row->reset();
    ASSERT_TRUE(format.execute("DELETE FROM tree; INSERT INTO tree SELECT * FROM before"));
  }
  alter("UPDATE tree SET format = 5; INSERT INTO positions VALUES (1 << 31, 0, 1)");
  auto state = ClientState::open(file());
  ASSERT_TRUE(state);
  Findings findings;
  ASSERT_TRUE(state->load(params(), &findings));
  ASSERT_EQ(findings.size(), 1u) << "and no memory for two thousand million blocks";
  EXPECT_EQ(findings[0].kind, "bad-position");
}

TEST_F(CheckTest, AFormatThatIsNotThatOfTheRowsIsRefused) {
  for (const int format : {2, 4}) {
    alter(fmt::format("UPDATE tree SET format = {}", format));
    auto state = ClientState::open(file());
    ASSERT_TRUE(state);
    const auto loaded = state->load(params());
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Errc::damaged_vault);
  }
}

TEST_F(CheckTest, ATreeThatCannotBeIsRefused) {
  for (const char* damage :
       {"UPDATE tree SET height = 7", "UPDATE tree SET written = 69",
        "UPDATE tree SET written = 91", "UPDATE tree SET attempt = x''", "DELETE FROM tree"}) {
    Database database = open();
    ASSERT_TRUE(database.begin());
    ASSERT_TRUE(database.execute(damage));
    const StateCheck found = read_state(database, params());
    database.rollback();
    ASSERT_TRUE(found.refused) << damage;
    EXPECT_EQ(found.refused->code, Errc::damaged_vault);
    EXPECT_FALSE(found.findings.back().mendable());
  }
  alter("UPDATE tree SET eviction = 8");
  ASSERT_EQ(check().findings.size(), 1u);
  EXPECT_FALSE(check().findings[0].mendable());
}

// A bad row of marks costs only what a repair of that bucket could have proven.
TEST_F(CheckTest, BadMarksAreDropped) {
  const MarkRow row{.eviction = 6, .height = kHeight, .marks = {Mark{1}, Mark{2}, std::nullopt}};
  const BucketIndex sound[] = {2, 13, kStashBucket};
  const auto put_marks = [](BucketIndex bucket, const Bytes& bytes) {
    std::string hex;
    for (const std::uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
    return fmt::format("INSERT OR REPLACE INTO marks VALUES ({}, x'{}')", bucket, hex);
  };
  const auto findings = [&] {
    Database database = open();
    StateCheck found = read_state(database, params());
    check_further(found, params());
    check_marks(database, found);
    std::vector<std::string> kinds;
    for (const Finding& finding : found.findings) kinds.push_back(finding.kind);
    EXPECT_TRUE(repair_state(database, params(), found));
    return kinds;
  };
  for (const BucketIndex bucket : sound) alter(put_marks(bucket, encode_marks(bucket, row)));
  EXPECT_TRUE(findings().empty());
  Bytes flipped = encode_marks(12, row);
  flipped[20] ^= 1;
  alter(put_marks(12, flipped));
  alter(put_marks(3, encode_marks(2, row)));  // of another bucket
  alter(put_marks(4, {}));
  alter("INSERT INTO marks VALUES (5, 'x')");
  alter(put_marks(1, encode_marks(1, row)));    // the root has no bucket
  alter(put_marks(16, encode_marks(16, row)));  // beyond the tree
  alter(put_marks(0, encode_marks(0, row)));
  EXPECT_EQ(findings(), std::vector<std::string>(7, "bad-mark"));
  EXPECT_TRUE(findings().empty()) << "they were dropped";
  Database database = open();
  auto left = database.prepare("SELECT bucket FROM marks ORDER BY bucket");
  ASSERT_TRUE(left);
  for (const BucketIndex bucket : sound) {
    ASSERT_TRUE(left->step());
    EXPECT_EQ(static_cast<BucketIndex>(left->integer(0)), bucket);
  }
}

}  // namespace
}  // namespace s3oram
