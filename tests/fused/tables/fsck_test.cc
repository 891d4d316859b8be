// Every kind of damage to a vault's own files is found, explained and mended, and nothing else is
// touched.
#include <sodium.h>

#include <fstream>

#include "fused/backup/backup_list.h"
#include "oramcore/base/durable_file.h"
#include "tests/fused/tables/sample_vault.h"

namespace s3oram {
namespace {

Ino ino(const std::string& name) { return sample_vault().ino(name); }

bool has(const Findings& findings, const std::string& kind, const std::string& where) {
  for (const Finding& finding : findings)
    if (finding.kind == kind && finding.where == where) return true;
  return false;
}

TEST(Fsck, ASoundVaultIsLeftAlone) {
  const DamagedVault vault;
  for (const bool repair : {false, true}) {
    const auto report = vault.check(repair);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->findings.empty()) << text_of(report->findings);
    EXPECT_EQ(report->files, 12u);
    EXPECT_EQ(report->names, 12u);
    EXPECT_EQ(report->blocks, 12u);
    EXPECT_FALSE(report->repaired);
    EXPECT_TRUE(report->copy.empty());
  }
  EXPECT_FALSE(std::filesystem::exists(vault.path() / "vault.db.before-fsck"));
}

// A restore then takes the names of the last backup, which has those rows.
TEST(Fsck, ALaterRepairKeepsThatRowsWereLost) {
  const DamagedVault vault;
  auto database = vault.open();
  ASSERT_TRUE(note_current(database, kRowsLost));
  vault.damage("UPDATE inodes SET nlink = 7 WHERE ino = {a}");
  const auto report = vault.check(true);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->repaired);
  const auto current = read_current(database);
  ASSERT_TRUE(current);
  EXPECT_EQ(*current, std::optional(kRowsLost));
}

struct Case {
  std::string sql, kind, where;
  std::set<std::string> touched;  // may change, besides /lost+found and the root
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.sql; }

class FsckDamage : public testing::TestWithParam<Case> {};

TEST_P(FsckDamage, IsFoundExplainedAndMended) {
  Case test = GetParam();
  test.where = DamagedVault::filled(test.where);
  const DamagedVault vault;
  const Dump sound = vault.dump();
  vault.damage(test.sql);
  const Dump damaged = vault.dump();

  auto report = vault.check(false);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(has(report->findings, test.kind, test.where)) << text_of(report->findings);
  EXPECT_GT(report->left(), 0u);
  EXPECT_TRUE(changed(damaged, vault.dump()).empty()) << "a check must change nothing";

  report = vault.check(true);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(has(report->findings, test.kind, test.where)) << text_of(report->findings);
  EXPECT_TRUE(report->repaired);
  EXPECT_EQ(report->left(), 0u);
  EXPECT_TRUE(std::filesystem::exists(vault.path() / "vault.db.before-fsck"));

  std::set<Ino> allowed{kRootIno};
  for (const std::string& name : test.touched) allowed.insert(ino(name));
  const Ino largest =
      std::max_element(sample_vault().inodes().begin(), sample_vault().inodes().end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; })
          ->second;
  for (const Ino touched : changed(sound, vault.dump()))
    EXPECT_TRUE(allowed.contains(touched) || touched > largest)
        << "inode " << touched << " was changed\n"
        << text_of(report->findings);

  report = vault.check(false);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->left(), 0u) << text_of(report->findings);
}

INSTANTIATE_TEST_SUITE_P(
    Files, FsckDamage,
    testing::Values(
        Case{"UPDATE inodes SET nlink = 7 WHERE ino = {a}", "link-count", "/a", {"/a"}},
        Case{"UPDATE inodes SET nlink = 1 WHERE ino = {b}", "link-count", "/b", {"/b"}},
        Case{"UPDATE inodes SET nlink = 0 WHERE ino = {a}", "link-count", "/a", {"/a"}},
        Case{"UPDATE inodes SET nlink = 9 WHERE ino = {dir}", "link-count", "/dir", {"/dir"}},
        Case{"UPDATE inodes SET nlink = 0 WHERE ino = 1", "link-count", "/", {}},
        Case{"UPDATE inodes SET blocks = 99 WHERE ino = {a}", "block-count", "/a", {"/a"}},
        Case{"UPDATE inodes SET blocks = 1 WHERE ino = {dir}", "block-count", "/dir", {"/dir"}},
        Case{"UPDATE inodes SET size = 5 WHERE ino = {a}", "size", "/a", {"/a"}},
        Case{"UPDATE inodes SET size = -1 WHERE ino = {a}", "size", "/a", {"/a"}},
        Case{"UPDATE inodes SET size = 1 << 63 WHERE ino = {empty}", "size", "/empty", {"/empty"}},
        Case{"UPDATE inodes SET size = 1 WHERE ino = {link}", "size", "/link", {"/link"}},
        Case{"UPDATE inodes SET parent = 77 WHERE ino = {dir_sub}",
             "parent",
             "/dir/sub",
             {"/dir/sub"}},
        Case{"UPDATE inodes SET mode = 3 WHERE ino = {a}", "wrong-type", "/a", {"/a"}},
        Case{"UPDATE inodes SET mode = 33188 WHERE ino = {dir}", "wrong-type", "/dir", {"/dir"}},
        Case{"UPDATE inodes SET mode = 16877 WHERE ino = {a}", "wrong-type", "/a", {"/a"}},
        Case{"UPDATE inodes SET target = x'' WHERE ino = {link}", "wrong-type", "/link", {"/link"}},
        Case{
            "UPDATE inodes SET mode = 33188 | (1 << 20) WHERE ino = {a}", "bad-mode", "/a", {"/a"}},
        Case{"UPDATE inodes SET uid = 'x' WHERE ino = {a}", "missing-inode", "/a", {"/a"}},
        Case{"UPDATE inodes SET mode = 'x' WHERE ino = {a}", "wrong-type", "/a", {"/a"}},
        Case{"DELETE FROM inodes WHERE ino = {a}", "missing-inode", "/a", {"/a"}},
        Case{"DELETE FROM inodes WHERE ino = {dir_sub}", "missing-inode", "/dir/sub", {"/dir/sub"}},
        Case{"DELETE FROM inodes WHERE ino = 1", "missing-inode", "/", {}},
        Case{"DELETE FROM inodes WHERE ino = {empty}", "dangling-name", "/empty", {"/empty"}},
        Case{"DELETE FROM dentries WHERE ino = {a}", "nameless", "inode {a}", {"/a"}},
        Case{"DELETE FROM dentries WHERE ino = {dir}", "nameless", "inode {dir}", {"/dir"}},
        Case{"UPDATE dentries SET name = x'2f' WHERE ino = {a}", "bad-name", "//", {"/a"}},
        Case{"UPDATE dentries SET name = x'2e2e' WHERE ino = {a}", "bad-name", "/..", {"/a"}},
        Case{"UPDATE dentries SET name = x'' WHERE ino = {a}", "bad-name", "/", {"/a"}},
        Case{"UPDATE dentries SET name = 'text' WHERE ino = {a}",
             "damaged-row",
             "vault.db, table dentries",
             {"/a"}},
        Case{"UPDATE dentries SET type = 16384 WHERE ino = {a}", "name-type", "/a", {"/a"}},
        Case{"UPDATE dentries SET parent = {b} WHERE ino = {a}", "misplaced-name", "/b/a", {"/a"}},
        Case{"UPDATE dentries SET ino = 1 WHERE ino = {empty_dir}",
             "loop",
             "/empty-dir",
             {"/empty-dir"}},
        Case{"INSERT INTO dentries (parent, name, ino, type) VALUES (1, x'74776f', {dir_sub}, "
             "16384)",
             "extra-name",
             "/two",
             {"/dir/sub"}},
        // /dir becomes an entry of /dir/sub
        Case{"UPDATE dentries SET parent = {dir_sub} WHERE ino = {dir}",
             "loop",
             "inode {dir}",
             {"/dir", "/dir/sub"}},
        Case{"UPDATE extents SET block = (SELECT block FROM extents WHERE ino = {a} AND idx = 0) "
             "WHERE ino = {b} AND idx = 0",
             "shared-block",
             "/b",
             {"/b"}},
        Case{"UPDATE extents SET block = 1 << 50 WHERE ino = {a} AND idx = 1",
             "lost-data",
             "/a",
             {"/a"}},
        Case{"UPDATE extents SET block = 'x' WHERE ino = {a} AND idx = 1",
             "lost-data",
             "/a",
             {"/a"}},
        Case{"UPDATE extents SET valid = 5000 WHERE ino = {a} AND idx = 0", "length", "/a", {"/a"}},
        Case{"UPDATE extents SET valid = 5000 WHERE ino = {a} AND idx = 2", "length", "/a", {"/a"}},
        Case{"UPDATE extents SET block = (SELECT block FROM extents WHERE ino = {a} AND idx = 2) "
             "+ 1 WHERE ino = {b} AND idx = 2",
             "shared-block",
             "/b",
             {"/b"}},
        Case{"UPDATE extents SET block = (SELECT block FROM extents WHERE ino = {a} AND idx = 2) "
             "+ 5000 WHERE ino = {b} AND idx = 2",
             "lost-data",
             "/b",
             {"/b"}},
        Case{"UPDATE extents SET valid = -1 WHERE ino = {a} AND idx = 2", "length", "/a", {"/a"}},
        Case{"UPDATE extents SET idx = -3 WHERE ino = {a} AND idx = 1",
             "damaged-row",
             "vault.db, table extents",
             {"/a"}},
        Case{"UPDATE extents SET ino = {link} WHERE ino = {a} AND idx = 1",
             "stray-data",
             "/link",
             {"/a", "/link"}},
        Case{"INSERT INTO xattrs (ino, name, value) VALUES (777, x'75', x'')",
             "stray-attributes",
             "inode 777",
             {}},
        Case{"UPDATE xattrs SET name = x''", "damaged-row", "vault.db, table xattrs", {"/a"}},
        Case{"DELETE FROM fs_state", "missing-format", "vault.db, table fs_state", {}},
        Case{"DROP TABLE fs_state", "missing-table", "vault.db, table fs_state", {}},
        Case{"DROP TABLE xattrs", "missing-table", "vault.db, table xattrs", {"/a"}}));

INSTANTIATE_TEST_SUITE_P(
    Blocks, FsckDamage,
    testing::Values(
        Case{"DELETE FROM positions WHERE block = (SELECT block FROM extents WHERE ino = {a} AND "
             "idx = 0)",
             "lost-data",
             "/a",
             {"/a"}},
        Case{"UPDATE positions SET position = 253 << 40 WHERE block = (SELECT block FROM extents "
             "WHERE ino = {a} AND idx = 0)",
             "lost-data",
             "/a",
             {"/a"}},
        Case{"UPDATE positions SET position = 254 << 40 WHERE block = (SELECT block FROM extents "
             "WHERE ino = {dir_sub_deep} AND idx = 1)",
             "lost-data",
             "/dir/sub/deep",
             {"/dir/sub/deep"}},
        Case{"UPDATE positions SET position = (SELECT position FROM positions, extents ON "
             "positions.block = extents.block WHERE ino = {b} AND idx = 0) WHERE block = "
             "(SELECT block FROM extents WHERE ino = {a} AND idx = 0)",
             "bad-position",
             "vault.db, table positions",
             {"/a"}},
        Case{"UPDATE positions SET position = 7 << 48 WHERE block IN (SELECT block FROM extents "
             "WHERE ino IN ({a}, {b}) AND idx = 0); UPDATE buckets SET blocks = x''",
             "bad-bucket",
             "vault.db, table buckets",
             {"/a", "/b", "/dir/sub/deep", "/sparse"}},
        Case{"INSERT INTO positions VALUES (1 << 31, 0, 1)",
             "bad-position",
             "vault.db, table positions",
             {}},
        Case{"INSERT INTO stash VALUES (3, x'01')", "stray-block", "vault.db, table stash", {}},
        Case{"INSERT INTO marks VALUES (2, x'01')", "bad-mark", "vault.db, table marks", {}},
        Case{
            "INSERT INTO intents VALUES (-1, 0, 0, 0, 0)", "intent", "vault.db, table intents", {}},
        Case{"INSERT INTO intents VALUES (3, 0, 0, 0, 0)",
             "intent",
             "vault.db, table intents",
             {}}));

TEST(Fsck, RowsThatHaveChangedByThemselvesAreToldOfAndKept) {
  const std::pair<const char*, const char*> changes[] = {
      {"UPDATE inodes SET mtime = 7 WHERE ino = {a}", "vault.db, table inodes"},
      {"UPDATE dentries SET name = x'64' WHERE ino = {a}", "vault.db, table dentries"},
      {"UPDATE extents SET valid = valid - 1 WHERE ino = {a} AND idx = 1",
       "vault.db, table extents"},
      {"UPDATE xattrs SET value = x'64'", "vault.db, table xattrs"},
  };
  for (const auto& [change, where] : changes) {
    const DamagedVault vault;
    vault.change(change);
    auto report = vault.check(false);
    ASSERT_TRUE(report);
    EXPECT_TRUE(has(report->findings, "changed-row", where)) << text_of(report->findings);
    const Dump before = vault.dump();
    report = vault.check(true);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->left(), 0u);
    EXPECT_TRUE(changed(before, vault.dump()).empty()) << change;
    report = vault.check(false);
    ASSERT_TRUE(report);
    EXPECT_FALSE(has(report->findings, "changed-row", where)) << change;
  }
}

// Of all rows that differ in one bit, only the one that was written has the right checksum.
TEST(Fsck, ARowThatHasLostOneBitIsPutRight) {
  const std::pair<const char*, const char*> changes[] = {
      {"UPDATE inodes SET mtime = mtime + 1 - 2 * (mtime % 2) WHERE ino = {a}",
       "vault.db, table inodes"},
      {"UPDATE dentries SET name = x'63' WHERE ino = {a}", "vault.db, table dentries"},
      {"UPDATE dentries SET type = type | 1 WHERE ino = {b}", "vault.db, table dentries"},
      {"UPDATE extents SET valid = valid | 1 WHERE ino = {a} AND idx = 1",
       "vault.db, table extents"},
      {"UPDATE xattrs SET value = x'6b657075'", "vault.db, table xattrs"},
  };
  for (const auto& [change, where] : changes) {
    const DamagedVault vault;
    const Dump before = vault.dump();
    vault.change(change);
    ASSERT_FALSE(changed(before, vault.dump()).empty()) << change;
    const auto report = vault.check(true);
    ASSERT_TRUE(report);
    EXPECT_TRUE(has(report->findings, "changed-row", where)) << text_of(report->findings);
    EXPECT_EQ(report->findings.size(), 1u) << text_of(report->findings);
    EXPECT_EQ(report->left(), 0u);
    EXPECT_TRUE(changed(before, vault.dump()).empty()) << change;
  }
}

// This holds whatever the order of the files' numbers.
TEST(Fsck, ARowThatHasChangedByItselfTakesNoBlockFromAnother) {
  for (const auto& [thief, owner] : {std::pair("/a", "/b"), {"/b", "/a"}}) {
    const DamagedVault vault;
    vault.change(
        fmt::format("UPDATE extents SET block = (SELECT block FROM extents WHERE ino = {} "
                    "AND idx = 1), valid = valid - 1 WHERE ino = {} AND idx = 1",
                    ino(owner), ino(thief)));
    const auto report = vault.check(true);
    ASSERT_TRUE(report);
    EXPECT_TRUE(has(report->findings, "shared-block", thief)) << text_of(report->findings);
    EXPECT_FALSE(has(report->findings, "shared-block", owner)) << text_of(report->findings);
    EXPECT_EQ(report->left(), 0u);
  }
}

TEST(Fsck, SaysWhichBytesOfWhichFileAreLost) {
  const DamagedVault vault;
  vault.damage(
      "DELETE FROM positions WHERE block IN (SELECT CASE WHEN block < 1 << 62 THEN block "
      "ELSE (block - (1 << 62)) >> 22 END FROM extents WHERE ino = {a})");
  const auto report = vault.check(false);
  ASSERT_TRUE(report);
  ASSERT_TRUE(has(report->findings, "lost-data", "/a"));
  EXPECT_NE(text_of(report->findings).find("bytes 0-9999 are lost"), std::string::npos)
      << text_of(report->findings);
}

/// SQL: the blocks of /a.
constexpr auto kBlocksOfA =
    "(SELECT CASE WHEN block < 1 << 62 THEN block ELSE (block - (1 << 62)) >> 22 END "
    "FROM extents WHERE ino = {a})";

/// Makes the vault move from a volume that has a copy of its tables, with all their rows.
void begin_to_move(const DamagedVault& damaged) {
  auto vault = Vault::find(damaged.path());
  ASSERT_TRUE(vault);
  ASSERT_TRUE(vault->begin_migration(vault->config(), 0));
  std::filesystem::create_directory(vault->source_directory());
  std::filesystem::copy_file(damaged.database(), vault->source().database());
}

TEST(Fsck, BlocksThatHaveNotMovedAreNotLost) {
  const DamagedVault vault;
  ASSERT_NO_FATAL_FAILURE(begin_to_move(vault));
  vault.damage(fmt::format("DELETE FROM positions WHERE block IN {}", kBlocksOfA));
  const auto report = vault.check(false);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->findings.empty()) << text_of(report->findings);
}

// The servers know which blocks they hold, although vault.db does not, so nothing may be given up.
TEST(Fsck, WithoutTheSourcesTablesBlocksAreNotCalledLost) {
  const DamagedVault vault;
  ASSERT_NO_FATAL_FAILURE(begin_to_move(vault));
  std::filesystem::remove(vault.path() / "source" / "vault.db");
  vault.damage(fmt::format("DELETE FROM positions WHERE block IN {}", kBlocksOfA));
  const Dump before = vault.dump();
  for (const bool repair : {false, true}) {
    const auto report = vault.check(repair);
    ASSERT_TRUE(report);
    const std::string said = text_of(report->findings);
    EXPECT_TRUE(has(report->findings, "source-database", "source/vault.db")) << said;
    EXPECT_TRUE(has(report->findings, "unknown-data", "/a")) << said;
    EXPECT_NE(said.find("not known where bytes 0-9999 lie"), std::string::npos) << said;
    EXPECT_FALSE(has(report->findings, "lost-data", "/a")) << said;
    EXPECT_EQ(said.find("are lost"), std::string::npos) << said;
    EXPECT_FALSE(report->repaired);
    EXPECT_TRUE(has(report->findings, "unknown-data", "/b")) << said;  // shares a pack with /a
    EXPECT_EQ(report->left(), 3u) << said;
  }
  EXPECT_TRUE(changed(before, vault.dump()).empty());
}

// A bad row may hide the place to which its block has moved.
TEST(Fsck, WhileBlocksMoveABadRowGivesNothingUp) {
  const DamagedVault vault;
  ASSERT_NO_FATAL_FAILURE(begin_to_move(vault));
  vault.damage(fmt::format("UPDATE positions SET position = 'x' WHERE block IN {}", kBlocksOfA));
  const Dump before = vault.dump();
  const auto report = vault.check(true);
  ASSERT_TRUE(report);
  const std::string said = text_of(report->findings);
  EXPECT_TRUE(has(report->findings, "bad-position", "vault.db, table positions")) << said;
  EXPECT_EQ(said.find("lost"), std::string::npos) << said;
  EXPECT_FALSE(report->repaired);
  EXPECT_GT(report->left(), 0u);
  EXPECT_TRUE(changed(before, vault.dump()).empty());
}

// The database is right, so there is nothing to mend.
TEST(Fsck, SaysWhichBytesOfWhichFileCouldNotBeRead) {
  const DamagedVault vault;
  vault.damage(
      "INSERT INTO unreadable SELECT DISTINCT CASE WHEN block < 1 << 62 THEN block ELSE "
      "(block - (1 << 62)) >> 22 END FROM extents WHERE ino = {a}");
  vault.damage("INSERT INTO unreadable VALUES (1 << 30), (-1)");
  const Dump before = vault.dump();
  for (const bool repair : {false, true}) {
    const auto report = vault.check(repair);
    ASSERT_TRUE(report);
    ASSERT_TRUE(has(report->findings, "unreadable-data", "/a"));
    EXPECT_NE(text_of(report->findings).find("bytes 0-9999 could not be read"), std::string::npos)
        << text_of(report->findings);
    EXPECT_GT(report->left(), 0u);
  }
  EXPECT_TRUE(changed(before, vault.dump()).empty());
}

TEST(Fsck, WhatACrashLeavesIsNoDamage) {
  const DamagedVault vault;
  vault.damage("INSERT INTO positions VALUES (50, (255 << 40) | (99 << 48), 1)");
  {
    Database database = vault.open();
    auto leaf = database.prepare("SELECT blocks FROM buckets WHERE bucket = 2");
    ASSERT_TRUE(leaf && *leaf->step());
    auto row = decode_row(2, leaf->blob(0));
    ASSERT_TRUE(row);
    row->blocks.push_back({.block = 50, .slot = 99, .leaf = 0, .version = 1});
    leaf->reset();
    auto put = database.prepare("UPDATE buckets SET blocks = ? WHERE bucket = 2");
    ASSERT_TRUE(put && put->bind(0, ByteSpan(encode_row(2, *row))).run());
  }
  vault.damage("UPDATE inodes SET nlink = 0 WHERE ino = {empty}");
  vault.damage("DELETE FROM dentries WHERE ino = {empty}");
  auto report = vault.check(false);
  ASSERT_TRUE(report);
  EXPECT_TRUE(has(report->findings, "unowned-blocks", "vault.db")) << text_of(report->findings);
  EXPECT_TRUE(has(report->findings, "unlinked", fmt::format("inode {}", ino("/empty"))));
  EXPECT_EQ(report->left(), 0u);
  report = vault.check(true);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->left(), 0u);
  report = vault.check(false);
  ASSERT_TRUE(report);  // the last backup may name it
  EXPECT_TRUE(has(report->findings, "unowned-blocks", "vault.db"));
}

TEST(Fsck, NamesForWhatHadNone) {
  const DamagedVault vault;
  vault.damage("DELETE FROM dentries WHERE ino IN ({a}, {dir_sub})");
  ASSERT_TRUE(vault.check(true));
  FileSystemOptions options;
  auto device = std::make_unique<MemoryDevice>(vault.database().string(), kTestBlock);
  auto mounted = FileSystem::mount(*device, vault.database().string(), options);
  ASSERT_TRUE(mounted) << mounted.error().message;
  FileSystem& fs = **mounted;
  const auto found = fs.lookup(kRootIno, "lost+found");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->st_nlink, 3u);
  const auto a = fs.lookup(found->st_ino, fmt::format("#{}", ino("/a")));
  ASSERT_TRUE(a);
  Bytes bytes(10'000);
  ASSERT_TRUE(fs.read(a->st_ino, 0, bytes));
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), SampleVault::content("/a"));
  const auto sub = fs.lookup(found->st_ino, fmt::format("#{}", ino("/dir/sub")));
  ASSERT_TRUE(sub);
  EXPECT_TRUE(fs.lookup(sub->st_ino, "deep"));
  EXPECT_TRUE(fs.unmount());
  device.reset();
}

TEST(Fsck, WhatCannotBeMendedIsSaidAndLeftAlone) {
  for (const std::string sql : {"DELETE FROM tree", "DELETE FROM sessions", "DROP TABLE positions",
                                "UPDATE tree SET height = 29", "UPDATE tree SET view = 12",
                                "DROP TABLE extents", "UPDATE fs_state SET value = 1000"}) {
    const DamagedVault vault;
    vault.damage(sql);
    for (const bool repair : {false, true}) {
      const auto report = vault.check(repair);
      ASSERT_TRUE(report) << sql;
      EXPECT_GT(report->left(), 0u) << sql;
      EXPECT_FALSE(report->repaired) << sql;
    }
  }
}

TEST(Fsck, MissingFiles) {
  for (const char* name : {"vault.db", "vault.key", "servers/2"}) {
    const DamagedVault vault;
    std::filesystem::remove_all(vault.path() / name);
    const auto report = vault.check(true);
    ASSERT_TRUE(report) << name;
    EXPECT_EQ(report->left(), 1u) << text_of(report->findings);
    EXPECT_TRUE(report->findings.empty() || report->findings[0].where == std::string(name))
        << text_of(report->findings);
  }
}

TEST(Fsck, ADamagedKeyIsSeenWithoutThePassphrase) {
  const DamagedVault vault;
  std::fstream(vault.path() / "vault.key", std::ios::in | std::ios::out) << "x";
  const auto report = vault.check(false);
  ASSERT_TRUE(report);
  EXPECT_TRUE(has(report->findings, "vault-key", "vault.key")) << text_of(report->findings);
}

TEST(Fsck, ANewerFormatIsNoDamage) {
  EXPECT_FALSE(DamagedVault().check(false)->unsupported);
  for (const bool repair : {false, true}) {
    for (const char* sql :
         {"UPDATE tree SET format = 99", "UPDATE fs_state SET value = 99 WHERE name = 'format'"}) {
      const DamagedVault vault;
      vault.damage(sql);
      const auto report = vault.check(repair);
      ASSERT_TRUE(report) << sql;
      EXPECT_TRUE(report->unsupported) << sql;
      EXPECT_EQ(report->left(), 1u) << text_of(report->findings);
      EXPECT_FALSE(report->repaired) << sql;
    }
    const DamagedVault vault;
    auto key = read_small_file(vault.path() / "vault.key", 1 << 20);
    ASSERT_TRUE(key);
    (*key)[14] = '2';
    crypto_generichash(key->data() + key->size() - 16, 16, key->data(), key->size() - 16, nullptr,
                       0);
    ASSERT_TRUE(write_durably(vault.path() / "vault.key", *key));
    const auto report = vault.check(repair);
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->unsupported) << text_of(report->findings);
  }
}

TEST(Fsck, EarlierCopiesAreKept) {
  const DamagedVault vault;
  vault.damage("UPDATE inodes SET nlink = 7 WHERE ino = {a}");
  const auto first = vault.check(true);
  ASSERT_TRUE(first);
  vault.damage("UPDATE inodes SET nlink = 8 WHERE ino = {a}");
  const auto second = vault.check(true);
  ASSERT_TRUE(second);
  EXPECT_NE(first->copy, second->copy);
  for (const auto& copy : {first->copy, second->copy})
    EXPECT_TRUE(std::filesystem::exists(copy)) << copy;
  const auto links = [](const std::filesystem::path& file) {
    auto database = Database::open(file.string(), Database::Mode::read_only);
    auto row = database->prepare(fmt::format("SELECT nlink FROM inodes WHERE ino = {}", ino("/a")));
    EXPECT_TRUE(*row->step());
    return row->integer(0);
  };
  EXPECT_EQ(links(first->copy), 7);
  EXPECT_EQ(links(second->copy), 8);
}

/// Overwrites one page after another. Whatever SQLite makes of it, the vault is sound afterwards,
/// or was left alone.
TEST(Fsck, DamagedPages) {
  const auto size = std::filesystem::file_size(sample_vault().database());
  constexpr std::uint64_t kPage = 4096;
  unsigned salvaged = 0, left_alone = 0;
  for (std::uint64_t page = 0; page * kPage < size; ++page) {
    const DamagedVault vault;
    { vault.open(); }  // the log is copied into the file
    {
      std::fstream file(vault.database(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(page * kPage));
      file << std::string(kPage, '\xa5');
    }
    const auto report = vault.check(true);
    ASSERT_TRUE(report) << report.error().message;
    if (!report->repaired) {
      ++left_alone;
      EXPECT_TRUE(report->copy.empty());
      EXPECT_FALSE(std::filesystem::exists(vault.path() / "vault.db.before-fsck"));
      continue;
    }
    const bool whole = report->left() == 0;
    salvaged += whole;
    const auto again = vault.check(false);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE(!whole || again->left() == 0) << "page " << page << "\n"
                                              << text_of(again->findings);
  }
  EXPECT_GE(salvaged, 3u);
  EXPECT_GE(left_alone, 1u);
}

}  // namespace
}  // namespace s3oram
