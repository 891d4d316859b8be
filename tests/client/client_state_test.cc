// Tests the client's state in vault.db: commits, sessions, older and newer formats, and damage.
#include "oramcore/client/client_state.h"

#include <gtest/gtest.h>

#include <fstream>

#include "oramcore/client/state_check.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

using Row = StateChanges::Row;

Row row_of(const Position& position, unsigned height) {
  return {PositionMap::pack(position, height), position.version};
}

class ClientStateTest : public testing::Test {
 protected:
  ClientStateTest() { EXPECT_TRUE(ClientState::create(file())); }

  std::filesystem::path file() const { return directory_ / "vault.db"; }
  /// Returns the state that a second opening of the file loads.
  Result<ClientState::Loaded> loaded() const {
    auto state = ClientState::open(file());
    if (!state) return fail(state.error());
    return state->load();
  }
  void alter(const std::filesystem::path& path, const std::string& sql) const {
    auto database = Database::open(path.string(), Database::Mode::read_write);
    ASSERT_GOOD(database);
    ASSERT_GOOD(database->execute(sql));
  }

  static TreeState some_tree() {
    TreeState tree{.tree_version = 7, .height = 4, .written = 31, .last_decided = {.eviction = 6}};
    tree.last_decided.attempt.fill(0xab);
    return tree;
  }
  static StateChanges some_changes() {
    StateChanges changes;
    changes.positions[1] = row_of({Position::Kind::tree, 0xfedcba9876, 4, 2, 11}, 4);
    changes.buckets[bucket_on_path(0xfedcba9876, 4)] = {true, {{1, 2, 0, 11}}};
    changes.positions[2] = row_of({Position::Kind::tree, 5, 0, 1, 12}, 4);
    changes.positions[300] = row_of({Position::Kind::stash, 9, 0, 0, 1ull << 63}, 4);
    changes.stash[300] = Bytes{1, 2, 3};
    return changes;
  }
  static void expect_some(const ClientState::Loaded& loaded) {
    EXPECT_EQ(loaded.tree.tree_version, 7u);
    EXPECT_EQ(loaded.tree.height, 4u);
    EXPECT_EQ(loaded.tree.written, 31u);
    EXPECT_EQ(loaded.tree.last_decided, some_tree().last_decided);
    EXPECT_EQ(loaded.positions.blocks(), (std::vector<BlockId>{1, 2, 300}));
    EXPECT_EQ(loaded.positions.height(), 4u);
    const Position one = loaded.positions.get(1);
    EXPECT_EQ(one.kind, Position::Kind::tree);
    EXPECT_EQ(one.leaf, 0xfedcba9876u);
    EXPECT_EQ(one.level, 4);
    EXPECT_EQ(one.slot, 2);
    EXPECT_EQ(one.version, 11u);
    EXPECT_EQ(loaded.positions.get(2).level, 0);
    EXPECT_EQ(loaded.positions.get(300).kind, Position::Kind::stash);
    EXPECT_EQ(loaded.positions.get(300).version, 1ull << 63);
    EXPECT_EQ(loaded.stash, (std::map<BlockId, Bytes>{{300, {1, 2, 3}}}));
  }

  TemporaryDirectory directory_;
};

TEST_F(ClientStateTest, ANewVolumeIsEmpty) {
  const auto found = loaded();
  ASSERT_GOOD(found);
  EXPECT_EQ(found->tree.tree_version, 0u);
  EXPECT_EQ(found->tree.height, 1u);
  EXPECT_EQ(found->tree.written, 0u);
  EXPECT_EQ(found->tree.last_decided, EvictionId{});
  EXPECT_EQ(found->positions.mapped(), 0u);
  EXPECT_TRUE(found->stash.empty());
  EXPECT_EQ(found->sessions, std::vector<Session>{Session{}});
}

TEST_F(ClientStateTest, CreateOverwritesNothing) {
  const auto again = ClientState::create(file());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::exists);
}

TEST_F(ClientStateTest, FindsWhatWasCommitted) {
  {
    auto state = ClientState::open(file());
    ASSERT_GOOD(state);
    ASSERT_GOOD(state->commit(some_tree(), some_changes(), {}));
  }
  auto found = loaded();
  ASSERT_GOOD(found);
  expect_some(*found);
  {
    auto state = ClientState::open(file());
    ASSERT_GOOD(state);
    StateChanges changes;
    changes.positions[1];  // forgotten
    changes.positions[2] = row_of({Position::Kind::tree, 6, 3, 4, 20}, 4);
    changes.buckets[bucket_on_path(6, 3)] = {false, {{2, 4, 0, 20}}};
    changes.stash[300];
    changes.positions[300] = row_of({Position::Kind::tree, 7, 0, 0, 21}, 4);
    changes.positions[999];  // never there
    ASSERT_GOOD(state->commit(some_tree(), changes, {}));
  }
  found = loaded();
  ASSERT_GOOD(found);
  EXPECT_EQ(found->positions.blocks(), (std::vector<BlockId>{2, 300}));
  EXPECT_EQ(found->positions.get(2).slot, 4);
  EXPECT_EQ(found->positions.get(300).kind, Position::Kind::tree);
  EXPECT_TRUE(found->stash.empty());
}

TEST_F(ClientStateTest, KeepsEmptySealedBlocks) {
  auto state = ClientState::open(file());
  ASSERT_GOOD(state);
  StateChanges changes;
  changes.positions[1] = row_of({Position::Kind::stash, 9, 0, 0, 1}, 1);
  changes.stash[1] = Bytes{};
  ASSERT_GOOD(state->commit({}, changes, {}));
  const auto found = loaded();
  ASSERT_GOOD(found);
  EXPECT_EQ(found->stash, (std::map<BlockId, Bytes>{{1, {}}}));
}

TEST_F(ClientStateTest, TheParticipantCommitsWithTheRestOrNotAtAll) {
  alter(file(), "CREATE TABLE names (name TEXT)");
  auto state = ClientState::open(file());
  ASSERT_GOOD(state);
  const auto add_name = [](Database& database) {
    return database.execute("INSERT INTO names VALUES ('x')");
  };
  const auto names = [&] {
    auto database = Database::open(file().string(), Database::Mode::read_only);
    auto rows = database->prepare("SELECT count(*) FROM names");
    EXPECT_TRUE(rows && rows->step());
    return rows->integer(0);
  };
  ASSERT_GOOD(state->commit(some_tree(), some_changes(), add_name));
  EXPECT_EQ(names(), 1);

  StateChanges changes;
  changes.positions[1];
  changes.positions[5] = row_of({Position::Kind::tree, 1, 0, 1, 30}, 4);
  changes.positions[300];
  changes.stash[300];
  TreeState tree = some_tree();
  tree.tree_version = 8;
  const auto failed = state->commit(tree, changes, [&](Database& database) -> Status {
    EXPECT_TRUE(add_name(database));
    return fail(Errc::disk_full, "no room for names");
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::disk_full);
  EXPECT_EQ(names(), 1);
  auto found = loaded();
  ASSERT_GOOD(found);
  expect_some(*found);

  // SQL itself fails inside the participant; the same state can be used after that.
  EXPECT_FALSE(state->commit(tree, changes, [](Database& database) {
    return database.execute("INSERT INTO nonsense VALUES (1)");
  }));
  ASSERT_GOOD(state->commit(tree, changes, add_name));
  EXPECT_EQ(names(), 2);
  found = loaded();
  ASSERT_GOOD(found);
  EXPECT_EQ(found->tree.tree_version, 8u);
  EXPECT_EQ(found->positions.blocks(), (std::vector<BlockId>{2, 5}));
}

TEST_F(ClientStateTest, RemembersSessionsInTheirOrder) {
  std::vector<Session> wanted{Session{}};
  {
    auto state = ClientState::open(file());
    ASSERT_GOOD(state);
    for (std::uint64_t epoch : {3, 1, 2}) {
      Session session{.epoch = epoch};
      session.nonce.fill(static_cast<std::uint8_t>(epoch));
      ASSERT_GOOD(state->add_session(session));
    }
    EXPECT_FALSE(state->add_session(Session{.epoch = 2})) << "an epoch is used once";
  }
  auto found = loaded();
  ASSERT_GOOD(found);
  ASSERT_EQ(found->sessions.size(), 4u);
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(found->sessions[epoch].epoch, epoch);
    EXPECT_EQ(found->sessions[epoch].nonce[5], epoch);
  }
  auto state = ClientState::open(file());
  ASSERT_GOOD(state);
  ASSERT_GOOD(state->forget_sessions_before(2));
  found = loaded();
  ASSERT_GOOD(found);
  ASSERT_EQ(found->sessions.size(), 2u);
  EXPECT_EQ(found->sessions[0].epoch, 2u);
}

TEST(StateChanges, NewerOnesComeFirst) {
  StateChanges older, newer;
  older.positions[1] = Row{10, 1};
  older.positions[2] = Row{20, 1};
  older.positions[3] = Row{30, 1};
  older.positions[4];
  older.stash[1] = Bytes{1};
  older.stash[2] = Bytes{2};
  older.stash[3];
  newer.positions[2] = Row{21, 2};
  newer.positions[3];  // forgotten since then
  newer.positions[5] = Row{50, 2};
  newer.stash[2];
  newer.stash[3] = Bytes{33};
  newer.merge_older(std::move(older));
  ASSERT_EQ(newer.positions.size(), 5u);
  EXPECT_EQ(newer.positions[1]->packed, 10u);
  EXPECT_EQ(newer.positions[2]->packed, 21u);
  EXPECT_EQ(newer.positions[2]->version, 2u);
  EXPECT_FALSE(newer.positions[3]);
  EXPECT_FALSE(newer.positions[4]);
  EXPECT_EQ(newer.positions[5]->packed, 50u);
  ASSERT_EQ(newer.stash.size(), 3u);
  EXPECT_EQ(newer.stash[1], Bytes{1});
  EXPECT_FALSE(newer.stash[2]);
  EXPECT_EQ(newer.stash[3], Bytes{33});
}

TEST_F(ClientStateTest, RefusesDamagedTables) {
  {
    auto state = ClientState::open(file());
    ASSERT_GOOD(state);
    ASSERT_GOOD(state->commit(some_tree(), some_changes(), {}));
  }
  const std::pair<std::string, Errc> damages[] = {
      {"DROP TABLE tree", Errc::damaged_vault},
      {"DROP TABLE positions", Errc::damaged_vault},
      {"DROP TABLE buckets", Errc::damaged_vault},
      {"DROP TABLE stash", Errc::damaged_vault},
      {"DROP TABLE sessions", Errc::damaged_vault},
      {"DELETE FROM tree", Errc::damaged_vault},
      {"DELETE FROM sessions", Errc::damaged_vault},
      {"UPDATE tree SET format = 9", Errc::unsupported},
      {"UPDATE tree SET format = 1", Errc::unsupported},
      {"UPDATE tree SET height = 0", Errc::damaged_vault},
      {"UPDATE tree SET height = 31", Errc::damaged_vault},
      {"UPDATE tree SET height = -1", Errc::damaged_vault},
      {"UPDATE tree SET written = -1", Errc::damaged_vault},
      {"UPDATE tree SET written = 27", Errc::damaged_vault},
      {"UPDATE tree SET written = 37", Errc::damaged_vault},
      {"UPDATE tree SET attempt = x'00'", Errc::damaged_vault},
      {"UPDATE sessions SET nonce = zeroblob(17)", Errc::damaged_vault},
      {"UPDATE tree SET height = 8", Errc::damaged_vault},
      {"UPDATE sessions SET epoch = -1", Errc::damaged_vault},
  };
  for (const auto& [damage, code] : damages) {
    const auto copy = directory_ / "damaged.db";
    std::filesystem::copy_file(file(), copy, std::filesystem::copy_options::overwrite_existing);
    alter(copy, damage);
    const auto found = [&]() -> Result<ClientState::Loaded> {
      auto state = ClientState::open(copy);
      if (!state) return fail(state.error());
      return state->load(VolumeParams{{1, 3}, 512, 8, 4});
    }();
    ASSERT_FALSE(found) << damage;
    EXPECT_EQ(found.error().code, code) << damage << ": " << found.error().message;
    std::filesystem::remove(copy);
  }
}

TEST_F(ClientStateTest, AnOlderDatabaseIsReadAndRaised) {
  {
    auto state = ClientState::open(file());
    ASSERT_GOOD(state);
    ASSERT_GOOD(state->commit(some_tree(), some_changes(), {}));
  }
  const auto format = [&] {
    auto database = Database::open(file().string(), Database::Mode::read_only);
    auto row = database->prepare("SELECT format FROM tree");
    EXPECT_TRUE(row && row->step());
    return row->integer(0);
  };
  for (int older = ClientState::kOldestFormat; older < ClientState::kFormat; ++older) {
    // Up to format 4 there were no rows of buckets, and in format 5 only buckets that evictions had
    // changed had one.
    if (older < 6) alter(file(), older < 5 ? "DROP TABLE buckets" : "DELETE FROM buckets");
    alter(file(), fmt::format("UPDATE tree SET format = {}", older));
    {
      auto database = Database::open(file().string(), Database::Mode::read_only);
      ASSERT_GOOD(database);
      EXPECT_FALSE(read_state(*database, {}).refused) << "a check reads the old format";
    }
    EXPECT_EQ(format(), older);
    const auto found = loaded();
    ASSERT_GOOD(found);
    expect_some(*found);
    EXPECT_EQ(format(), ClientState::kFormat);
  }
  EXPECT_EQ(ClientState::kFormat, 8);
}

TEST_F(ClientStateTest, KeepsMarksUntilTheyAreForgotten) {
  auto state = ClientState::open(file());
  ASSERT_GOOD(state);
  const auto mark = [](std::uint64_t eviction) {
    Mark given;
    given.fill(static_cast<std::uint8_t>(eviction));
    return MarkRow{eviction, 4, {given, std::nullopt, given}};
  };
  const auto holds = [&](BucketIndex bucket) {
    const auto found = state->marks_of(bucket, 4);
    EXPECT_TRUE(found);
    return found ? *found : std::nullopt;
  };
  StateChanges changes;
  for (BucketIndex bucket = 2; bucket < 6; ++bucket) changes.marks[bucket] = mark(bucket);
  ASSERT_GOOD(state->commit(some_tree(), changes, {}));
  for (BucketIndex bucket = 2; bucket < 6; ++bucket) EXPECT_EQ(holds(bucket), mark(bucket));
  // Of changes that did not commit, the newer ones count.
  StateChanges older, newer;
  older.unmarked = {2, 3};
  older.marks[4] = mark(14);
  older.marks[5] = mark(15);
  newer.marks[3] = mark(13);
  newer.unmarked = {4};
  newer.merge_older(std::move(older));
  ASSERT_GOOD(state->commit(some_tree(), newer, {}));
  EXPECT_EQ(holds(2), std::nullopt);
  EXPECT_EQ(holds(3), mark(13));
  EXPECT_EQ(holds(4), std::nullopt);
  EXPECT_EQ(holds(5), mark(15));
  ASSERT_GOOD(state->forget_marks());
  for (BucketIndex bucket = 2; bucket < 6; ++bucket) EXPECT_EQ(holds(bucket), std::nullopt);
}

TEST_F(ClientStateTest, IsMadeWithWhatWasFound) {
  const auto made = directory_ / "made.db";
  ClientState::Loaded content;
  content.tree = some_tree();
  content.positions.reset(content.tree.height);
  content.positions.set(1, {Position::Kind::tree, 0xfedcba9876, 4, 2, 11});
  content.positions.set(9, {Position::Kind::tree, 5, 0, 5, 29});
  content.sessions = {Session{.epoch = 8}};
  for (WriteNumber write_number = 28; write_number < 31; ++write_number)
    content.access_records.push_back({.write_number = write_number, .access = write_number});
  ASSERT_GOOD(ClientState::check_free(made));
  ASSERT_GOOD(ClientState::create(made, content, 4));
  EXPECT_EQ(ClientState::check_free(made).error().code, Errc::exists);
  EXPECT_EQ(ClientState::create(made, content, 4).error().code, Errc::exists);
  auto state = ClientState::open(made);
  ASSERT_GOOD(state);
  const auto found = state->load(VolumeParams{{1, 3}, 512, 8, 4});
  ASSERT_GOOD(found);
  EXPECT_EQ(found->tree.written, 31u);
  EXPECT_EQ(found->tree.last_decided, content.tree.last_decided);
  EXPECT_EQ(found->positions.blocks(), (std::vector<BlockId>{1, 9}));
  EXPECT_EQ(found->positions.get(1).leaf, 0xfedcba9876u);
  EXPECT_EQ(found->sessions, content.sessions);
  ASSERT_EQ(found->access_records.size(), 3u);
  for (const AccessRecord& access_record : found->access_records)
    EXPECT_EQ(access_record.access, access_record.write_number);
}

// A rebuild ends early, and the vault is mounted. Nothing remains that stops the next rebuild.
TEST_F(ClientStateTest, AnEmptyDatabaseStaysEmpty) {
  const auto empty = directory_ / "empty.db";
  ASSERT_GOOD(ClientState::check_free(empty));
  const auto opened = ClientState::open(empty);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::damaged_vault);
  ASSERT_GOOD(ClientState::check_free(empty));
}

TEST_F(ClientStateTest, ANewerDatabaseIsLeftAsItIs) {
  alter(file(), "UPDATE tree SET format = 9; DROP TABLE IF EXISTS intents");
  std::filesystem::remove(file().string() + "-ballast");
  const auto opened = ClientState::open(file());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unsupported);
  EXPECT_EQ(
      opened.error().message.find(file().string() + ": its format 9 is newer than this program"),
      0u)
      << opened.error().message;
  EXPECT_FALSE(std::filesystem::exists(file().string() + "-ballast"));
  auto database = Database::open(file().string(), Database::Mode::read_only);
  ASSERT_GOOD(database);
  EXPECT_FALSE(database->prepare("SELECT * FROM intents"));
}

TEST_F(ClientStateTest, RefusesWhatIsNoDatabase) {
  const auto junk = directory_ / "junk.db";
  std::ofstream(junk) << std::string(5000, 'j');
  const auto opened = ClientState::open(junk);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::damaged_vault);
  EXPECT_FALSE(ClientState::open(directory_ / "nothing.db"));
}

}  // namespace
}  // namespace s3oram
