// Tests the files of a vault that moves: to which volume each table and file belongs, wherever a
// crash falls.
#include <gtest/gtest.h>

#include "oramcore/base/durable_file.h"
#include "oramcore/client/owner.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/credential.h"
#include "oramcore/volume/migration.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"
#include "tests/volume/moving_volumes.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;
using test::kMatrix;
using test::kRing;
using test::local_config;

struct Move {
  const char* name;
  VolumeParams from, to;
};

class MigrationFiles : public testing::TestWithParam<Move> {
 protected:
  void SetUp() override {
    VaultConfig config = local_config(GetParam().from, 1);
    auto made = Vault::create(root_ / "v", config, Credential{}, random_);
    ASSERT_GOOD(made);
    vault_.emplace(std::move(*made));
    const auto keys = vault_->unlock(Credential{});
    ASSERT_GOOD(keys);
    keys_ = *keys;
    disk_ = std::make_unique<SealedDisk>(keys_.pages);
    ASSERT_GOOD(make(*vault_, keys_));
    auto database = open(*vault_);
    ASSERT_GOOD(database);
    ASSERT_GOOD(database->execute("CREATE TABLE files (name); INSERT INTO files VALUES ('a')"));
    auto next = vault_->make_next(local_config(GetParam().to, 2));
    ASSERT_GOOD(next);
    ASSERT_GOOD(make(*next, keys_.of(next->config())));
  }
  ClientVolume volume_of(const Vault& vault) const {
    return {vault.config().volume, vault.config().params, keys_.of(vault.config()).sealing,
            vault.directory()};
  }
  /// Makes the volume as Volume::create() does, with a file in each store that says whose it is.
  Status make(Vault& vault, const VaultKeys& keys) {
    const VaultConfig& config = vault.config();
    S3O_TRY(volume_kind(config.params).create(volume_of(vault), *disk_));
    S3O_ASSIGN(auto database, open(vault));
    S3O_TRY(database.transact("owner", [&] {
      return keep_owner(database, {config.volume, config.params, keys.sealing});
    }));
    S3O_TRY(write_durably(vault.store(1) / "whose", config.volume));
    if (config.params.is_ring())
      S3O_TRY(write_durably(vault.directory() / "top.cache", config.volume));
    return vault.mark_ready();
  }
  Result<Database> open(const Vault& vault) {
    return Database::open(vault.database().string(), Database::Mode::read_write, *disk_);
  }
  std::set<std::string> tables_in(const Vault& vault) {
    std::set<std::string> names;
    auto database = open(vault);
    EXPECT_TRUE(database);
    auto rows = database->prepare("SELECT name FROM sqlite_master WHERE type = 'table'");
    EXPECT_TRUE(rows);
    while (*rows->step()) names.insert(rows->text(0));
    return names;
  }
  void expect_owned(const Vault& vault) {
    auto database = open(vault);
    ASSERT_GOOD(database);
    const auto other = other_owner(*database, {vault.config().volume, vault.config().params,
                                               keys_.of(vault.config()).sealing});
    ASSERT_GOOD(other);
    EXPECT_EQ(*other, "");
    const auto whose = read_small_file(vault.store(1) / "whose", 100);
    ASSERT_GOOD(whose);
    EXPECT_TRUE(std::ranges::equal(*whose, vault.config().volume));
    const fs::path cache = vault.directory() / "top.cache";
    ASSERT_EQ(fs::exists(cache), vault.config().params.is_ring()) << cache;
    if (!fs::exists(cache)) return;
    EXPECT_TRUE(std::ranges::equal(*read_small_file(cache, 100), vault.config().volume));
  }
  /// Checks that the vault belongs to the new volume, and source/ to the previous one.
  void expect_moved() {
    const auto found = Vault::find(root_ / "v");
    ASSERT_GOOD(found);
    EXPECT_EQ(found->config().params, GetParam().to);
    ASSERT_TRUE(found->config().source);
    ASSERT_NO_FATAL_FAILURE(expect_owned(*found));
    ASSERT_NO_FATAL_FAILURE(expect_owned(found->source()));
    auto names = tables_in(*found);
    EXPECT_EQ(names.erase("files"), 1u);
    EXPECT_EQ(names, tables_of(GetParam().to));
    EXPECT_EQ(tables_in(found->source()), tables_of(GetParam().from));
    EXPECT_FALSE(fs::exists(found->next_directory()));
  }
  static std::set<std::string> tables_of(const VolumeParams& params) {
    const auto names = volume_kind(params).tables();
    return {names.begin(), names.end()};
  }

  TemporaryDirectory root_;
  SystemRandom random_;
  std::optional<Vault> vault_;
  VaultKeys keys_;
  std::unique_ptr<SealedDisk> disk_;
};

// If a scheme gets another table, it must be listed, or the table stays behind.
TEST_P(MigrationFiles, AVolumeHasTheTablesThatItNames) {
  auto names = tables_in(*vault_);
  names.erase("files");
  EXPECT_EQ(names, tables_of(GetParam().from));
}

TEST_P(MigrationFiles, TheNewVolumeTakesThePlaceOfTheFormerOne) {
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
  ASSERT_NO_FATAL_FAILURE(expect_moved());
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  ASSERT_NO_FATAL_FAILURE(expect_moved());
  ASSERT_GOOD(vault_->end_migration());
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  EXPECT_EQ(Vault::find(root_ / "v")->config().source, nullptr);
  EXPECT_FALSE(fs::exists(vault_->source_directory() / "vault.db"));
  // The user must delete its stores before anything else comes there.
  EXPECT_TRUE(fs::exists(vault_->source_directory() / "servers" / "1" / "whose"));
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  auto next = vault_->make_next(local_config(GetParam().from, 3));
  ASSERT_GOOD(next);
  ASSERT_GOOD(make(*next, keys_.of(next->config())));
  const Status refused = begin_migration(*vault_, keys_, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::exists);
  fs::remove_all(vault_->source_directory());
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
}

TEST_P(MigrationFiles, ACrashBeforeTheDecisionChangesNothing) {
  fs::create_directories(vault_->source_directory() / "run");
  ASSERT_GOOD(write_durably(vault_->source_directory() / "vault.db", as_bytes("half a file")));
  // A file that cannot be read is left to the next beginning.
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  ASSERT_NO_FATAL_FAILURE(expect_owned(*vault_));
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
  ASSERT_NO_FATAL_FAILURE(expect_moved());
}

// The last steps of begin_migration() are undone, one by one, and done again.
TEST_P(MigrationFiles, ACrashAfterTheDecisionIsSettled) {
  const fs::path here = vault_->directory(), kept = root_ / "kept";
  fs::copy(here, kept, fs::copy_options::recursive);
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
  const auto put = [&](const char* name) {
    fs::remove_all(here / name);
    fs::copy(kept / name, here / name, fs::copy_options::recursive);
  };
  // The files of next/ are still there.
  put("next");
  fs::remove_all(here / "next" / "servers");
  fs::remove(here / "next" / "top.cache");
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  ASSERT_NO_FATAL_FAILURE(expect_moved());
  // Stores have not been renamed either, nor has top.cache.
  put("next");
  fs::remove_all(here / "source" / "servers");
  put("servers");
  if (fs::exists(kept / "top.cache")) put("top.cache");
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  ASSERT_NO_FATAL_FAILURE(expect_moved());
  // The tables have not been exchanged either.
  put("next");
  fs::remove_all(here / "source" / "servers");
  put("servers");
  for (const char* name : {"vault.db", "vault.db-wal", "vault.db-shm"}) {
    fs::remove(here / name);
    if (fs::exists(kept / name)) put(name);
  }
  if (fs::exists(kept / "top.cache")) put("top.cache");
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  expect_moved();
}

// Two processes read vault.json at different times; the file on disk counts.
TEST_P(MigrationFiles, WhatVaultJsonSaysOnDiskCounts) {
  auto other = Vault::find(root_ / "v");
  ASSERT_GOOD(other);
  ASSERT_GOOD(begin_migration(*other, keys_, 0));
  ASSERT_FALSE(vault_->config().source);
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  EXPECT_TRUE(vault_->config().source);
  expect_moved();
}

// vault.json was replaced, but the copy of the source's tables is gone. The tables are copied
// before they are dropped.
TEST_P(MigrationFiles, NoTableIsDroppedThatIsNowhereElse) {
  const auto next = vault_->next();
  ASSERT_GOOD(next);
  fs::create_directories(vault_->source_directory() / "run");
  ASSERT_GOOD(vault_->begin_migration((*next)->config(), 0));
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  auto database = open(vault_->source());
  ASSERT_GOOD(database);
  EXPECT_EQ(tables_in(vault_->source()), tables_of(GetParam().from));
}

// This is the state after restore --from with an older recovery file.
TEST_P(MigrationFiles, AnOlderVaultJsonRemovesNothing) {
  const auto old = read_small_file(vault_->directory() / "vault.json", 100'000);
  ASSERT_GOOD(old);
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
  const auto present = read_small_file(vault_->directory() / "vault.json", 100'000);
  ASSERT_GOOD(present);
  ASSERT_GOOD(write_durably(vault_->directory() / "vault.json", *old));
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  EXPECT_FALSE(vault_->config().source);
  ASSERT_GOOD(write_durably(vault_->directory() / "vault.json", *present));
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  expect_moved();
}

TEST_P(MigrationFiles, AForeignDatabaseIsRefusedAndNothingRemoved) {
  auto third = Vault::create(root_ / "third", local_config(GetParam().from, 3), {}, random_);
  ASSERT_GOOD(third);
  ASSERT_GOOD(make(*third, keys_));
  const auto next = vault_->next();
  ASSERT_GOOD(next);
  ASSERT_GOOD(vault_->begin_migration((*next)->config(), 0));
  fs::remove(vault_->database().string() + "-wal");
  fs::copy(third->database(), vault_->database(), fs::copy_options::overwrite_existing);
  const Status refused = settle_migration(*vault_, keys_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::damaged_vault) << refused.error().message;
  EXPECT_TRUE(fs::exists((*next)->database()));
  EXPECT_TRUE(fs::exists(vault_->store(1) / "whose"));
}

// Two runs of migrate at the same time: the second is too late.
TEST_P(MigrationFiles, AnotherVolumeInNextIsLeftAlone) {
  const VaultConfig late = local_config(GetParam().to, 9);
  auto other = Vault::create(root_ / "other", local_config(GetParam().from, 8), {}, random_);
  ASSERT_GOOD(other);
  auto next = other->make_next(late);
  ASSERT_GOOD(next);
  ASSERT_GOOD(make(*next, keys_.of(next->config())));
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
  const auto refused = vault_->make_next(late);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::vault_in_use);
  fs::copy(next->directory(), vault_->next_directory(), fs::copy_options::recursive);
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  EXPECT_TRUE(fs::exists(vault_->next_directory() / "vault.db"));
  fs::remove_all(vault_->next_directory());
  expect_moved();
}

TEST_P(MigrationFiles, WhatAUserCallsSourceStays) {
  const fs::path source = vault_->source_directory();
  ASSERT_GOOD(write_durably(source, Bytes(1, 'a')));
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  EXPECT_TRUE(fs::exists(source));
  EXPECT_FALSE(begin_migration(*vault_, keys_, 0));
  fs::remove(source);
  // A copy of the vault that was made by hand.
  fs::create_directory(source);
  auto database = open(*vault_);
  ASSERT_GOOD(database);
  ASSERT_GOOD(database->execute("CREATE TABLE fs_state (x)"));
  ASSERT_GOOD(database->fold_log());
  fs::copy_file(vault_->database(), source / "vault.db");
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  EXPECT_TRUE(fs::exists(source / "vault.db"));
}

TEST_P(MigrationFiles, WhatAnEndLeavesIsRemoved) {
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
  ASSERT_GOOD(vault_->end_migration());
  ASSERT_TRUE(fs::exists(vault_->source_directory() / "vault.db"));
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  EXPECT_FALSE(fs::exists(vault_->source_directory() / "vault.db"));
}

// top.cache has a second name at the source of a ring, into which nobody else may write.
TEST_P(MigrationFiles, ANewRingHasATopCacheOfItsOwn) {
  fs::remove(vault_->next_directory() / "top.cache");
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
  EXPECT_FALSE(fs::exists(vault_->directory() / "top.cache"));
  EXPECT_EQ(fs::exists(vault_->source_directory() / "top.cache"), GetParam().from.is_ring());
}

/// Returns the directories that are kept of sources that were given up.
std::vector<fs::path> set_aside(const Vault& vault) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(vault.directory()))
    if (entry.path().filename().string().starts_with("source.before-restore"))
      found.push_back(entry.path());
  return found;
}

TEST_P(MigrationFiles, ASourceThatIsGivenUpIsSetAside) {
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
  const auto present = read_small_file(vault_->directory() / "vault.json", 100'000);
  fs::create_directory(vault_->directory() / "source.before-restore");  // from an earlier restore
  const auto aside = leave_source(*vault_);
  ASSERT_GOOD(aside);
  EXPECT_EQ(aside->filename(), "source.before-restore-2");
  EXPECT_FALSE(fs::exists(vault_->source_directory()));
  EXPECT_FALSE(Vault::find(root_ / "v")->config().source);
  EXPECT_TRUE(fs::exists(*aside / "vault.db"));
  EXPECT_TRUE(fs::exists(*aside / "servers" / "1" / "whose"));
  EXPECT_EQ(*read_small_file(*aside / "vault.json", 100'000), *present);
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  EXPECT_TRUE(fs::exists(*aside / "vault.db"));
  ASSERT_NO_FATAL_FAILURE(expect_owned(*vault_));
  // The user can undo a mistake by hand.
  ASSERT_GOOD(write_durably(vault_->directory() / "vault.json", *present));
  fs::rename(*aside, vault_->source_directory());
  fs::remove(vault_->source_directory() / "vault.json");
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  expect_moved();
}

TEST_P(MigrationFiles, ASourceWhoseEndFailsStaysInItsPlace) {
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
  const fs::path config = vault_->directory() / "vault.json", moved = root_ / "moved";
  fs::rename(config, moved);
  fs::create_directory(config);  // which nothing replaces
  EXPECT_FALSE(leave_source(*vault_));
  fs::remove(config);
  fs::rename(moved, config);
  EXPECT_TRUE(set_aside(*vault_).empty());
  ASSERT_GOOD(settle_migration(*vault_, keys_));
  expect_moved();
}

TEST_P(MigrationFiles, AfterACrashASourceThatIsSetAsideIsGivenUp) {
  ASSERT_GOOD(begin_migration(*vault_, keys_, 0));
  fs::rename(vault_->source_directory(), vault_->directory() / "source.before-restore");
  const auto aside = leave_source(*vault_);
  ASSERT_GOOD(aside);
  EXPECT_EQ(*aside, fs::path());
  EXPECT_EQ(set_aside(*vault_).size(), 1u);
  EXPECT_FALSE(Vault::find(root_ / "v")->config().source);
  ASSERT_NO_FATAL_FAILURE(expect_owned(*vault_));
}

TEST(MigrationRoom, ALowTreeTakesManyBlocksAndNotAny) {
  ASSERT_GOOD(check_block_numbers(std::uint64_t{1} << 22, 1, kRing));
  const Status refused = check_block_numbers(std::uint64_t{1} << 23, 1, kRing);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unsupported);
  ASSERT_GOOD(check_block_numbers(std::uint64_t{1} << 23, 22, kRing));
}

TEST_P(MigrationFiles, WithoutAVolumeToMoveToNothingBegins) {
  fs::remove_all(vault_->next_directory());
  const Status refused = begin_migration(*vault_, keys_, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::usage);
  expect_owned(*vault_);
}

INSTANTIATE_TEST_SUITE_P(Moves, MigrationFiles,
                         testing::Values(Move{"RingToS3oram", kRing, kMatrix},
                                         Move{"S3oramToRing", kMatrix, kRing},
                                         Move{"RingToRing", kRing, kRing},
                                         Move{"S3oramToS3oram", kMatrix, kMatrix}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace s3oram
