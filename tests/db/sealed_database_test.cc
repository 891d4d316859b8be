// Sealed databases: their files show nothing of the content, and no change of a file or of its log
// goes unnoticed.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "oramcore/db/database_file.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/gather_pages.h"
#include "oramcore/db/log_scan.h"
#include "oramcore/db/orphan_rows.h"
#include "oramcore/db/salvage.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/db/sqlite.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSector = 512;
constexpr int kSealedRows = 900;

Bytes content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
void store(const fs::path& file, ByteSpan bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}
Seed secret(std::uint8_t first) {
  Seed seed{};
  seed[0] = first;
  return seed;
}

/// The files of a database as a crash leaves them.
struct Image {
  Bytes file, log;
};

class SealedDatabaseTest : public testing::Test {
 protected:
  fs::path path(const char* name = "names.db") const { return directory_ / name; }

  static std::string name_of(int number) { return fmt::format("a secret name {:06}", number); }

  Result<Database> open(Database::Mode mode = Database::Mode::read_write,
                        const char* name = "names.db") {
    return Database::open(path(name).string(), mode, disk_);
  }

  /// Writes rows to both kinds of tables, over inner pages and overflow pages. Some rows, and
  /// changes of others, are only in the log.
  Image make() {
    auto db = open(Database::Mode::create);
    EXPECT_TRUE(db);
    const auto fill = [&](int from, int to) {
      EXPECT_TRUE(db->transact("rows", [&]() -> Status {
        auto put = db->prepare("INSERT INTO named VALUES (?, ?, ?)");
        auto blob = db->prepare("INSERT INTO big VALUES (?, ?)");
        for (int i = from; i < to; ++i) {
          S3O_TRY(put->bind(0, i / 100).bind(1, std::string_view(name_of(i))).bind(2, i).run());
          if (i % 30 == 0)
            S3O_TRY(blob->bind(0, i)
                        .bind(1, ByteSpan(Bytes(9000, static_cast<std::uint8_t>(i))))
                        .run());
        }
        return {};
      }));
    };
    EXPECT_TRUE(db->execute(
        "CREATE TABLE named (part INTEGER NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL,"
        " PRIMARY KEY (part, name)) WITHOUT ROWID;"
        "CREATE TABLE big (number INTEGER PRIMARY KEY, content BLOB)"));
    fill(0, kSealedRows / 2);
    EXPECT_TRUE(db->fold_log());
    for (int part = 0; part < 5; ++part)
      fill(kSealedRows / 2 + part * kSealedRows / 10,
           kSealedRows / 2 + (part + 1) * kSealedRows / 10);
    return {content(path()), content(log_of(path()))};
  }

  void put(const Image& image, const char* name = "damaged.db") {
    fs::remove(path(name).string() + "-shm");
    store(path(name), image.file);
    store(log_of(path(name)), image.log);
  }

  enum class Outcome { noticed, harmless, silent };
  /// Checks that each row is there as it was written, or that the damage is reported.
  Outcome read(Disk& disk, const char* name = "damaged.db") {
    auto db = Database::open(path(name).string(), Database::Mode::read_only, disk);
    if (!db) return noticed(db.error());
    auto named = db->prepare("SELECT name, number FROM named ORDER BY name");
    if (!named) return noticed(named.error());
    int count = 0;
    for (;; ++count) {
      auto more = named->step();
      if (!more) return noticed(more.error());
      if (!*more) break;
      if (named->text(0) != name_of(count) || named->integer(1) != count) return Outcome::silent;
    }
    if (count != kSealedRows) return Outcome::silent;
    auto big = db->prepare("SELECT number, content FROM big ORDER BY number");
    if (!big) return noticed(big.error());
    for (int i = 0;; i += 30) {
      auto more = big->step();
      if (!more) return noticed(more.error());
      if (!*more) return i == kSealedRows ? Outcome::harmless : Outcome::silent;
      if (big->integer(0) != i || big->blob(1) != Bytes(9000, static_cast<std::uint8_t>(i)))
        return Outcome::silent;
    }
  }
  Outcome read() { return read(disk_); }
  Outcome noticed(const Error& error) {
    EXPECT_EQ(error.code, Errc::damaged_vault) << error.message;
    EXPECT_NE(error.message.find("damaged.db"), std::string::npos) << error.message;
    EXPECT_EQ(error.message.find("SELECT"), std::string::npos) << "SQL is for the log";
    said_ = error.message;
    return Outcome::noticed;
  }

  TemporaryDirectory directory_;
  SealedDisk disk_{secret(1)};
  std::string said_;
};

TEST_F(SealedDatabaseTest, TheFilesHoldNothingOfTheContent) {
  const Image image = make();
  for (const Bytes& bytes : {image.file, image.log}) {
    const std::string text(bytes.begin(), bytes.end());
    ASSERT_GT(text.size(), 20 * kPageBytes);
    EXPECT_EQ(text.find("secret name"), std::string::npos);
    EXPECT_EQ(text.find("CREATE TABLE"), std::string::npos);
    EXPECT_EQ(text.find(std::string(64, static_cast<char>(30))), std::string::npos);
  }
  const DatabaseHeader header = parse_header(image.file);
  EXPECT_EQ(header.kind, DatabaseHeader::Kind::sealed);
  EXPECT_FALSE(header.is_damaged);
  EXPECT_EQ(header.user_version, kSealFormat);
  put(image);
  EXPECT_EQ(read(), Outcome::harmless);
}

TEST_F(SealedDatabaseTest, NoPageIsSealedTwiceInTheSameWay) {
  const Image image = make();
  std::set<Bytes> nonces;
  for (std::size_t at = kPageBytes; at <= image.file.size(); at += kPageBytes)
    nonces.insert({image.file.begin() + static_cast<std::ptrdiff_t>(at - kSealBytes),
                   image.file.begin() + static_cast<std::ptrdiff_t>(at - 16)});
  EXPECT_EQ(nonces.size(), image.file.size() / kPageBytes);
}

TEST_F(SealedDatabaseTest, NoSingleBitGoesUnnoticed) {
  const Image image = make();
  std::mt19937_64 random(1);
  unsigned outcomes[3] = {};
  const auto flip = [&](bool in_log, std::size_t bit) {
    Image damaged = image;
    (in_log ? damaged.log : damaged.file)[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    put(damaged);
    const Outcome outcome = read();
    ++outcomes[static_cast<int>(outcome)];
    EXPECT_NE(outcome, Outcome::silent) << (in_log ? "log, bit " : "file, bit ") << bit;
  };
  for (int i = 0; i < 250; ++i) flip(false, random() % (8 * image.file.size()));
  for (int i = 0; i < 250; ++i) flip(true, random() % (8 * image.log.size()));
  for (std::size_t bit = 0; bit < 8 * kClearHeaderBytes; ++bit) flip(false, bit);
  for (std::size_t bit = 0; bit < 8 * (kLogHeaderBytes + kFrameHeaderBytes); ++bit) flip(true, bit);
  // SQLite does not read from the file a page that the log holds too.
  EXPECT_GT(outcomes[0], 900u) << outcomes[1] << " harmless";
}

TEST_F(SealedDatabaseTest, NoSectorGoesUnnoticed) {
  const Image image = make();
  std::mt19937_64 random(2);
  unsigned seen = 0;
  for (int i = 0; i < 600; ++i) {
    const bool in_log = i % 2 != 0;
    Image damaged = image;
    Bytes& bytes = in_log ? damaged.log : damaged.file;
    const auto sector = [&] { return random() % (bytes.size() / kSector) * kSector; };
    const std::size_t at = sector();
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (i / 2 % 4) {
      case 0:  // zeroed
        std::fill_n(begin, kSector, 0);
        break;
      case 1: {  // swapped with another sector
        std::swap_ranges(begin, begin + kSector,
                         bytes.begin() + static_cast<std::ptrdiff_t>(sector()));
        break;
      }
      case 2:  // torn in its middle
        std::fill_n(begin, 1 + random() % (kSector - 1), static_cast<std::uint8_t>(random()));
        break;
      default:  // a whole page lost
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at / kPageBytes * kPageBytes),
                    std::min(kPageBytes, bytes.size() - at / kPageBytes * kPageBytes), 0);
    }
    if (bytes == (in_log ? image.log : image.file)) continue;
    put(damaged);
    const Outcome outcome = read();
    seen += outcome == Outcome::noticed;
    EXPECT_NE(outcome, Outcome::silent) << i << (in_log ? ", log, at " : ", file, at ") << at;
  }
  EXPECT_GT(seen, 300u);
}

TEST_F(SealedDatabaseTest, APageIsBoundToItsPlaceAndItsDatabase) {
  make();
  ASSERT_GOOD(fold_log(path(), disk_));
  const Image image{content(path()), {}};
  const auto page = [](Bytes& bytes, std::size_t number) {
    return bytes.begin() + static_cast<std::ptrdiff_t>((number - 1) * kPageBytes);
  };
  Image damaged = image;
  std::swap_ranges(page(damaged.file, 3), page(damaged.file, 4), page(damaged.file, 5));
  put(damaged);
  EXPECT_EQ(read(), Outcome::noticed);
  EXPECT_NE(said_.find("damaged.db: page "), std::string::npos) << said_;
  // A page of another database of the same key, and one of another vault.
  for (const std::uint8_t key : {1, 2}) {
    SealedDisk other(secret(key));
    fs::remove(path("other.db"));
    auto db = Database::open(path("other.db").string(), Database::Mode::create, other);
    ASSERT_GOOD(db);
    ASSERT_GOOD(
        db->execute("CREATE TABLE named (name TEXT NOT NULL, number INTEGER NOT NULL,"
                    " PRIMARY KEY (name)) WITHOUT ROWID"));
    for (int i = 0; i < 200; ++i)
      ASSERT_GOOD(db->execute(fmt::format("INSERT INTO named VALUES ('{}', 7)", name_of(i))));
    ASSERT_GOOD(db->fold_log());
    Bytes others = content(path("other.db"));
    damaged = image;
    std::copy(page(others, 2), page(others, 3), page(damaged.file, 2));
    put(damaged);
    EXPECT_EQ(read(), Outcome::noticed);
  }
}

// SQLite ends the transaction of a statement that meets a damaged page. The statements after it
// would commit one by one.
TEST_F(SealedDatabaseTest, NothingBecomesDurableAfterADamagedPageEndedItsTransaction) {
  make();
  std::size_t root = 0;
  {
    auto db = open();
    ASSERT_GOOD(db->fold_log());
    auto page = db->prepare("SELECT rootpage FROM sqlite_master WHERE name = 'named'");
    ASSERT_GOOD(page);
    ASSERT_TRUE(*page->step());
    root = static_cast<std::size_t>(page->integer(0));
  }
  const Bytes whole = content(path());
  Bytes damaged = whole;
  damaged[(root - 1) * kPageBytes + 2000] ^= 1;
  store(path(), damaged);
  {
    auto db = open();
    ASSERT_GOOD(db);
    auto put = db->prepare("INSERT INTO big VALUES (?, NULL)");
    ASSERT_GOOD(put);
    const Status ended = db->transact("test", [&]() -> Status {
      S3O_TRY(put->bind(0, -1).run());
      EXPECT_TRUE(db->in_transaction());
      EXPECT_FALSE(db->execute("INSERT INTO named VALUES (0, 'another', 1)"));
      EXPECT_FALSE(db->in_transaction());
      EXPECT_FALSE(put->bind(0, -2).run());
      EXPECT_FALSE(db->execute("INSERT INTO big VALUES (-3, NULL)"));
      return {};
    });
    EXPECT_FALSE(ended);
    // What begins again counts.
    EXPECT_TRUE(db->transact("test", [&] { return put->bind(0, -4).run(); }));
    EXPECT_TRUE(put->bind(0, -5).run());
    ASSERT_GOOD(db->fold_log());
  }
  auto db = open();
  ASSERT_GOOD(db);
  auto rows = db->prepare("SELECT group_concat(number) FROM big WHERE number < 0");
  ASSERT_GOOD(rows);
  ASSERT_TRUE(*rows->step());
  EXPECT_EQ(rows->text(0), "-5,-4");
}

TEST_F(SealedDatabaseTest, AFrameIsBoundToItsPlaceInTheLog) {
  const Image image = make();
  Image damaged = image;
  const auto frame = [&](std::uint32_t index) {
    return damaged.log.begin() + static_cast<std::ptrdiff_t>(frame_offset(index));
  };
  std::swap_ranges(frame(3), frame(4), frame(6));
  put(damaged);
  EXPECT_EQ(read(), Outcome::noticed);
  EXPECT_NE(said_.find("damaged.db-wal: damaged: frame 3 "), std::string::npos) << said_;
}

TEST_F(SealedDatabaseTest, OnlyItsKeyOpensIt) {
  put(make());
  SealedDisk other(secret(2));
  const auto wrong = Database::open(path("damaged.db").string(), Database::Mode::read_only, other);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Errc::damaged_vault);
  EXPECT_NE(wrong.error().message.find("another key"), std::string::npos) << wrong.error().message;
  const auto none = Database::open(path("damaged.db").string(), Database::Mode::read_only);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::wrong_passphrase);
  EXPECT_TRUE(is_of_other_key(path("damaged.db"), *other.page_key()));
  EXPECT_FALSE(is_of_other_key(path("damaged.db"), *disk_.page_key()));
}

TEST_F(SealedDatabaseTest, APlainDatabaseStaysAsItIs) {
  {
    auto db = Database::open(path().string(), Database::Mode::create);
    ASSERT_GOOD(db);
    ASSERT_GOOD(db->execute("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (7)"));
  }
  {
    auto db = open(Database::Mode::create);
    ASSERT_GOOD(db);
    ASSERT_GOOD(db->execute("INSERT INTO t VALUES (8)"));
  }
  auto db = Database::open(path().string(), Database::Mode::read_only);
  ASSERT_GOOD(db);
  auto rows = db->prepare("SELECT SUM(n) FROM t");
  ASSERT_GOOD(rows);
  ASSERT_TRUE(*rows->step());
  EXPECT_EQ(rows->integer(0), 15);
  EXPECT_EQ(read_header(path()).user_version, 0u);
}

// ---- the log

TEST_F(SealedDatabaseTest, ALogIsRecoveredWhereverACrashCutsIt) {
  const Image image = make();
  for (std::uint32_t frames = 0; frame_offset(frames + 1) <= image.log.size(); ++frames) {
    Image cut = image;
    cut.log.resize(frame_offset(frames + 1) + (frames % 3) * 700);
    put(cut);
    auto db = Database::open(path("damaged.db").string(), Database::Mode::read_write, disk_);
    ASSERT_TRUE(db) << frames << ": " << db.error().message;
    auto rows = db->prepare("SELECT COUNT(*), MAX(number) FROM named");
    ASSERT_GOOD(rows);
    ASSERT_TRUE(*rows->step());
    EXPECT_EQ(rows->integer(0), rows->integer(1) + 1);
    EXPECT_GE(rows->integer(0), kSealedRows / 2);
  }
}

TEST_F(SealedDatabaseTest, TheLastCommitOfALogIsKnownToHaveBeenDurable) {
  const Image image = make();
  const auto frames =
      static_cast<std::uint32_t>((image.log.size() - kLogHeaderBytes) / kFrameBytes);
  for (std::size_t at : {std::size_t{0}, std::size_t{5}, std::size_t{18}, std::size_t{3000}}) {
    Image damaged = image;
    damaged.log[frame_offset(frames) + at] ^= 4;
    put(damaged);
    EXPECT_EQ(read(), Outcome::noticed) << at;
    EXPECT_NE(said_.find(fmt::format("damaged.db-wal: damaged: frame {} of {}", frames, frames)),
              std::string::npos)
        << said_;
  }
  // Without the mark nothing shows that the log was not cut short.
  Image torn = image;
  torn.log.resize(frame_offset(frames + 1));
  torn.log[frame_offset(frames) + 3000] ^= 4;
  put(torn);
  auto db = Database::open(path("damaged.db").string(), Database::Mode::read_write, disk_);
  EXPECT_TRUE(db) << db.error().message;
}

TEST_F(SealedDatabaseTest, PagesWrittenTwiceInATransactionAreRecovered) {
  auto db = open(Database::Mode::create);
  ASSERT_GOOD(db);
  ASSERT_GOOD(
      db->execute("PRAGMA cache_size = 10; CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)"));
  for (int round = 0; round < 4; ++round) {
    ASSERT_GOOD(db->begin());
    for (int i = 0; i < 300; ++i)
      ASSERT_GOOD(db->execute(
          fmt::format("INSERT OR REPLACE INTO t VALUES ({}, zeroblob({}))", i * 7 % 300, 500 + i)));
    ASSERT_GOOD(db->execute("UPDATE t SET b = zeroblob(700)"));
    if (round == 2)
      db->rollback();
    else
      ASSERT_GOOD(db->commit("rows"));
  }
  put({content(path()), content(log_of(path()))});
  auto copy = Database::open(path("damaged.db").string(), Database::Mode::read_write, disk_);
  ASSERT_GOOD(copy);
  auto rows = copy->prepare("SELECT COUNT(*), SUM(length(b)) FROM t");
  ASSERT_GOOD(rows);
  ASSERT_TRUE(*rows->step());
  EXPECT_EQ(rows->integer(0), 300);
  EXPECT_EQ(rows->integer(1), 300 * 700);
}

TEST_F(SealedDatabaseTest, ConnectionsWriteInTurn) {
  auto one = open(Database::Mode::create);
  ASSERT_GOOD(one);
  ASSERT_GOOD(one->execute("CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)"));
  auto two = open();
  ASSERT_GOOD(two);
  for (int i = 0; i < 40; ++i) {
    Database& writer = i % 3 == 0 ? *one : *two;
    ASSERT_GOOD(writer.transact("row", [&] {
      return writer.execute(fmt::format("INSERT INTO t VALUES ({}, zeroblob({}))", i, i * 300));
    }));
    if (i % 7 == 6) ASSERT_GOOD((i % 2 == 0 ? *one : *two).fold_log());
    put({content(path()), content(log_of(path()))});
    auto copy = Database::open(path("damaged.db").string(), Database::Mode::read_only, disk_);
    ASSERT_GOOD(copy);
    auto rows = copy->prepare("SELECT COUNT(*), SUM(length(b)) FROM t");
    ASSERT_GOOD(rows);
    const auto more = rows->step();
    ASSERT_TRUE(more) << i << ": " << more.error().message;
    EXPECT_EQ(rows->integer(0), i + 1);
    EXPECT_EQ(rows->integer(1), 150 * i * (i + 1));
  }
}

// ---- what can be saved

TEST_F(SealedDatabaseTest, SingleBitsAreMended) {
  const Image image = make();
  std::mt19937_64 random(3);
  Image damaged = image;
  std::set<std::size_t> pages;
  for (int i = 0; i < 8; ++i) {
    const std::size_t at = random() % damaged.file.size();
    if (!pages.insert(at / kPageBytes).second) continue;
    damaged.file[at] ^= static_cast<std::uint8_t>(1u << random() % 8);
    damaged.log[frame_offset(static_cast<std::uint32_t>(3 * i + 1)) + kFrameHeaderBytes + 77 * i] ^=
        16;
  }
  damaged.file[72] ^= 1;  // a byte of SQLite's header
  put(damaged);
  const auto gathered = gather_pages(path("damaged.db"), path("gathered.db"), *disk_.page_key());
  ASSERT_GOOD(gathered);
  EXPECT_TRUE(gathered->lost.empty());
  EXPECT_GE(gathered->mended, 8u);
  EXPECT_EQ(read(disk_, "gathered.db"), Outcome::harmless);
}

TEST_F(SealedDatabaseTest, ALostPageCostsItsRowsAlone) {
  make();
  ASSERT_GOOD(fold_log(path(), disk_));
  const Bytes whole = content(path());
  const std::size_t count = whole.size() / kPageBytes;
  std::uint64_t orphans = 0;
  // Try the first pages, which include inner pages of the trees, and some of the others.
  for (std::size_t number = 2; number <= count; number += number < 12 ? 1 : 4) {
    Bytes bytes = whole;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>((number - 1) * kPageBytes), kSector, 0);
    put({bytes, {}});
    for (const char* name : {"gathered.db", "fresh.db"}) ASSERT_GOOD(remove_database(path(name)));
    const auto gathered = gather_pages(path("damaged.db"), path("gathered.db"), *disk_.page_key());
    ASSERT_GOOD(gathered);
    ASSERT_EQ(gathered->lost.size(), 1u);
    const auto tables = salvage(path("gathered.db").string(), path("fresh.db").string(), disk_);
    ASSERT_GOOD(tables);
    const auto added = copy_orphan_rows(path("gathered.db"), path("fresh.db"), disk_);
    ASSERT_GOOD(added);
    for (const auto& [name, rows] : *added) orphans += rows;
    // A page holds about a hundred of the short rows, or a part of one of the long ones, whatever
    // its place in the tree.
    auto db = open(Database::Mode::read_only, "fresh.db");
    ASSERT_GOOD(db);
    auto rows = db->prepare(
        "SELECT (SELECT COUNT(*) FROM named), (SELECT COUNT(*) FROM big),"
        " (SELECT COUNT(*) FROM named WHERE name <> printf('a secret name %06d', number)),"
        " (SELECT COUNT(*) FROM big WHERE length(content) <> 9000)");
    ASSERT_GOOD(rows);
    ASSERT_TRUE(*rows->step());
    EXPECT_GE(rows->integer(0), kSealedRows - 150) << number;
    EXPECT_GE(rows->integer(1), kSealedRows / 30 - 8) << number;
    EXPECT_EQ(rows->integer(2) + rows->integer(3), 0) << number;
  }
  EXPECT_GT(orphans, static_cast<std::uint64_t>(kSealedRows / 2)) << "no inner page was among them";
}

}  // namespace
}  // namespace s3oram
