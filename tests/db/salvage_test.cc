// Tests what is read from a damaged SQLite file.
#include "oramcore/db/salvage.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "oramcore/db/sqlite.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPage = 4096;
constexpr std::int64_t kFilledRows = 3000;

class SalvageTest : public testing::Test {
 protected:
  SalvageTest() {
    auto database = Database::open(original(), Database::Mode::create);
    EXPECT_TRUE(database);
    // The tables of vault.db have keys of these kinds: a number, two numbers, a number and a text.
    const Status made = database->execute(fmt::format(
        "CREATE TABLE one (k INTEGER PRIMARY KEY, v BLOB NOT NULL);"
        "CREATE TABLE two (k INTEGER NOT NULL, l INTEGER NOT NULL, v INTEGER NOT NULL,"
        " PRIMARY KEY (k, l)) WITHOUT ROWID;"
        "CREATE TABLE named (k INTEGER NOT NULL, name BLOB NOT NULL, v INTEGER NOT NULL,"
        " PRIMARY KEY (k, name)) WITHOUT ROWID;"
        "CREATE INDEX few ON one (v) WHERE k % 100 = 0;"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {0} - 1)"
        " INSERT INTO one SELECT i * 7, zeroblob(20) FROM n;"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {0} - 1)"
        " INSERT INTO two SELECT i / 1000, i, i FROM n;"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {0} - 1)"
        " INSERT INTO named SELECT 1 + i / 2000, CAST('file ' || i AS BLOB), i FROM n;",
        kFilledRows));
    EXPECT_TRUE(made) << made.error().message;
  }

  std::string original() const { return (directory_ / "original.db").string(); }
  std::string damaged() const { return (directory_ / "damaged.db").string(); }
  std::string mended() const { return (directory_ / "mended.db").string(); }

  /// Damages the page, if one is given.
  void damage(std::optional<std::uint64_t> page) {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      fs::remove(mended() + suffix);
      fs::remove(damaged() + suffix);
    }
    fs::copy_file(original(), damaged());
    if (!page) return;
    std::fstream file(damaged(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(*page * kPage));
    file << std::string(kPage, '\x5a');
  }
  static std::map<std::string, std::set<std::string>> rows(const std::string& file) {
    std::map<std::string, std::set<std::string>> rows;
    auto database = Database::open(file, Database::Mode::read_write);
    for (const auto& [table, columns] :
         {std::pair("one", "quote(k) || quote(v)"), std::pair("two", "quote(k) || quote(l) || v"),
          std::pair("named", "quote(k) || quote(name) || v")}) {
      auto statement = database->prepare(fmt::format("SELECT {} FROM {}", columns, table));
      EXPECT_TRUE(statement);
      while (*statement->step()) rows[table].insert(statement->text(0));
    }
    return rows;
  }
  static std::string integrity(const std::string& file) {
    auto database = Database::open(file, Database::Mode::read_write);
    auto row = database->prepare("PRAGMA integrity_check");
    EXPECT_TRUE(*row->step());
    return row->text(0);
  }

  TemporaryDirectory directory_;
};

TEST_F(SalvageTest, ASoundFileIsCopiedWhole) {
  const auto tables = salvage(original(), mended());
  ASSERT_TRUE(tables) << tables.error().message;
  ASSERT_EQ(tables->size(), 3u);
  for (const SalvagedTable& table : *tables) {
    EXPECT_TRUE(table.whole) << table.name;
    EXPECT_EQ(table.rows, kFilledRows) << table.name;
  }
  EXPECT_EQ(rows(mended()), rows(original()));
  EXPECT_EQ(integrity(mended()), "ok");
}

TEST_F(SalvageTest, ADamagedPageCostsTheRowsOnIt) {
  const auto sound = rows(original());
  // No leaf page of these tables holds more rows.
  constexpr std::size_t kMostOnAPage = 400;
  unsigned costly = 0, harmless = 0;
  for (std::uint64_t page = 1; page * kPage < fs::file_size(original()); ++page) {
    damage(page);
    const auto tables = salvage(damaged(), mended());
    ASSERT_TRUE(tables) << page << ": " << tables.error().message;
    EXPECT_EQ(integrity(mended()), "ok");
    std::size_t lost = 0, damaged_tables = 0;
    const auto left = rows(mended());
    for (const auto& [table, wanted] : sound) {
      const auto found = left.find(table);
      const std::size_t there = found == left.end() ? 0 : found->second.size();
      lost += wanted.size() - there;
      damaged_tables += there < wanted.size();
      if (found == left.end()) continue;
      for (const std::string& row : found->second)
        ASSERT_TRUE(wanted.contains(row)) << page << ": " << table << ": " << row;
    }
    EXPECT_LE(damaged_tables, 1u) << page;
    if (lost == 0)
      ++harmless;
    else if (lost > kMostOnAPage)
      ++costly;  // the page above all other pages of its table
  }
  EXPECT_LE(costly, 3u);
  EXPECT_GE(harmless, 1u);  // the index's pages
}

// SQLite can copy a table as it is, with rows out of order and without their values.
TEST_F(SalvageTest, WhateverIsDamagedTheNewFileIsSound) {
  unsigned salvaged = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    damage({});
    {
      std::fstream file(damaged(), std::ios::in | std::ios::out | std::ios::binary);
      const auto size = fs::file_size(damaged());
      for (int flip = 0; flip < 3; ++flip) {
        // The list of tables comes first; nothing can be read without it.
        const auto at = static_cast<std::streamoff>(kPage + random() % (size - kPage));
        file.seekg(at);
        const int byte = file.get() ^ 1 << random() % 8;
        file.seekp(at);
        file.put(static_cast<char>(byte));
      }
    }
    const auto tables = salvage(damaged(), mended());
    if (!tables) continue;
    ++salvaged;
    EXPECT_EQ(integrity(mended()), "ok") << "seed " << seed;
  }
  EXPECT_GT(salvaged, 30u);
}

TEST_F(SalvageTest, WithoutTheListOfTablesNothingCanBeRead) {
  damage(0);
  const auto tables = salvage(damaged(), mended());
  ASSERT_FALSE(tables);
  EXPECT_EQ(tables.error().code, Errc::damaged_vault);
}

}  // namespace
}  // namespace s3oram
