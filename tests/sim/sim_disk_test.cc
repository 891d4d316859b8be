// The simulated disk keeps its promises where disks do, and breaks them where they do; SQLite works
// on it.
#include "tests/sim/sim_disk.h"

#include <gtest/gtest.h>

#include "oramcore/db/sqlite.h"

namespace s3oram {
namespace {

using test::SimDisk;

class SimDiskTest : public testing::TestWithParam<int> {
 protected:
  /// For every other seed, databases are sealed.
  SimDiskTest() {
    if (GetParam() % 2 != 0) return;
    secret_[0] = 1;
    disk_->seal_databases(
        std::make_shared<PageKey>(secret_, std::make_unique<Prg>(secret_, as_bytes("nonces"))));
  }
  std::unique_ptr<File> open(SimDisk& disk, const char* name = "file") {
    auto file = disk.open(name);
    EXPECT_TRUE(file);
    return std::move(*file);
  }
  static Bytes read(File& file, std::uint64_t offset, std::size_t size) {
    Bytes out(size);
    EXPECT_TRUE(file.read(offset, out));
    return out;
  }
  Seed secret_{};
  std::unique_ptr<SimDisk> disk_ =
      std::make_unique<SimDisk>(test::DiskImage{}, static_cast<std::uint64_t>(GetParam()));
};

TEST_P(SimDiskTest, KeepsWhatWasSyncedAndAnySubsetOfTheRest) {
  auto file = open(*disk_);
  ASSERT_TRUE(file->write(0, Bytes(5000, 1)));
  ASSERT_TRUE(file->sync());
  ASSERT_TRUE(file->write(1000, Bytes(3000, 2)));
  ASSERT_TRUE(file->write(6000, Bytes(10, 3)));
  bool told = false;
  disk_->on_cut = [&] { told = true; };
  disk_->cut();
  EXPECT_TRUE(told);
  ASSERT_TRUE(file->write(0, Bytes(5000, 9))) << "a ghost's calls still succeed";
  EXPECT_EQ(read(*file, 0, 1), Bytes(1, 9));
  auto next = disk_->next_life();
  auto again = open(*next);
  const Bytes left = read(*again, 0, 7000);
  for (std::size_t at = 0; at < left.size(); ++at) {
    const int byte = left[at];
    if (at < 1000 || (at >= 4000 && at < 5000)) {
      EXPECT_EQ(byte, 1) << at;
    } else if (at < 4000) {
      EXPECT_TRUE(byte == 1 || byte == 2) << at;
      if (at % 512 != 0 && at > 1000) {
        EXPECT_EQ(byte, left[at - 1]) << "a sector is torn: " << at;
      }
    } else if (at >= 6000 && at < 6010) {
      EXPECT_TRUE(byte == 0 || byte == 3) << at;
    } else {
      EXPECT_EQ(byte, 0) << at;
    }
  }
}

TEST_P(SimDiskTest, ReservedSpaceLastsWhenTheDiskIsFull) {
  auto file = open(*disk_);
  ASSERT_TRUE(file->write(0, Bytes(100, 1)));
  disk_->leave_space(3 * test::kDiskPage);
  ASSERT_TRUE(file->reserve(3 * test::kDiskPage));
  EXPECT_EQ(read(*file, 0, 101), [] {
    Bytes wanted(101, 1);
    wanted.back() = 0;
    return wanted;
  }());
  disk_->leave_space(0);
  EXPECT_TRUE(file->write(2 * test::kDiskPage, Bytes(test::kDiskPage, 2)));
  const auto full = file->write(3 * test::kDiskPage, Bytes(1, 2));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::disk_full);
  const auto more = file->reserve(4 * test::kDiskPage);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::disk_full);
  disk_->leave_space({});
  EXPECT_TRUE(file->write(3 * test::kDiskPage, Bytes(1, 2)));
}

TEST_P(SimDiskTest, AFailedSyncIsNotMadeGoodByTheNext) {
  auto file = open(*disk_);
  ASSERT_TRUE(file->write(0, Bytes(512 * 64, 1)));
  disk_->fail_next_sync();
  ASSERT_FALSE(file->sync());
  EXPECT_EQ(read(*file, 0, 1), Bytes(1, 1)) << "programs still see it";
  ASSERT_TRUE(file->sync());
  std::size_t lost = 0;
  disk_->cut();
  auto next = disk_->next_life();
  for (const std::uint8_t byte : read(*open(*next), 0, 512 * 64)) lost += byte == 0;
  static std::size_t lost_by_any = 0;
  lost_by_any += lost;
  if (GetParam() == 20) {
    EXPECT_GT(lost_by_any, 0u);
  }
}

TEST_P(SimDiskTest, AKilledProcessLosesNothing) {
  auto file = open(*disk_);
  ASSERT_TRUE(file->write(0, Bytes(600, 1)));
  auto next = disk_->next_life();
  EXPECT_EQ(read(*open(*next), 0, 600), Bytes(600, 1));
  // A later power cut may lose unsynced data.
  next->cut();
  const Bytes left = read(*open(*next->next_life()), 0, 600);
  for (const std::uint8_t byte : left) EXPECT_TRUE(byte == 0 || byte == 1);
}

// ---- SQLite on it

Result<Database> database(SimDisk& disk, Database::Mode mode = Database::Mode::create) {
  auto opened = Database::open("test.db", mode, disk);
  if (opened && mode == Database::Mode::create)
    S3O_TRY(opened->execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, b BLOB)"));
  return opened;
}

Status insert(Database& db, std::int64_t number) {
  return db.transact("row", [&] {
    return db.execute(fmt::format("INSERT INTO t VALUES ({}, randomblob(900))", number));
  });
}

Result<std::int64_t> count(Database& db) {
  auto check = db.prepare("PRAGMA integrity_check");
  if (!check) return fail(check.error());
  auto there = check->step();
  if (!there) return fail(there.error());
  if (check->text(0) != "ok") return fail(Errc::corrupt, "{}", check->text(0));
  auto rows = db.prepare("SELECT COUNT(*), COALESCE(MAX(n), -1) FROM t");
  if (!rows) return fail(rows.error());
  there = rows->step();
  if (!there) return fail(there.error());
  EXPECT_EQ(rows->integer(0), rows->integer(1) + 1) << "a gap";
  return rows->integer(0);
}

TEST_P(SimDiskTest, SqliteLosesNoCommitToPowerCuts) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  std::int64_t least = 0;
  for (int life = 0; life < 30; ++life) {
    disk_->cut_after(1 + random() % (life % 3 ? 60 : 2500));
    std::int64_t committed = -1, begun = 0;
    {
      auto db = database(*disk_);
      ASSERT_TRUE(db) << db.error().message;
      if (!disk_->is_cut()) {
        auto found = count(*db);
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_GE(*found, least);
        committed = begun = *found;
        for (int i = 0; i < 400 && !disk_->is_cut(); ++i) {
          begun = committed + 1;
          ASSERT_TRUE(insert(*db, committed));
          if (!disk_->is_cut()) committed = begun;
        }
        least = std::max(least, committed);
      }
    }
    if (!disk_->is_cut()) disk_->cut();
    disk_ = disk_->next_life();
    auto db = database(*disk_);
    ASSERT_TRUE(db) << db.error().message;
    auto found = count(*db);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_GE(*found, least);
    if (committed >= 0) {
      EXPECT_LE(*found, begun);
    }
    least = *found;
  }
  EXPECT_GT(least, 0);
}

// The log of a killed process is read from the page cache, where it is whole, although a sync of
// the log has failed.
TEST_P(SimDiskTest, SqliteLosesNoCommitBehindAFailedSyncOfAKilledProcess) {
  {
    auto db = database(*disk_);
    ASSERT_TRUE(db);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(insert(*db, i));
    disk_->fail_next_sync();
    ASSERT_FALSE(insert(*db, 5));
    disk_ = [&] {
      auto next = disk_->next_life();
      *db = Database();
      return next;
    }();
  }
  auto db = database(*disk_);
  ASSERT_TRUE(db) << db.error().message;
  auto found = count(*db);
  ASSERT_TRUE(found);
  for (auto i = *found; i < 10; ++i) ASSERT_TRUE(insert(*db, i));
  disk_->cut();
  auto next = disk_->next_life();
  *db = Database();
  disk_ = std::move(next);
  auto again = database(*disk_);
  ASSERT_TRUE(again) << again.error().message;
  found = count(*again);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, 10);
}

// A read that fails while a log is recovered does not end the log there. SQLite would copy what
// comes before, also when a connection that could not be opened is closed, and remove the log.
TEST_P(SimDiskTest, SqliteLosesNoCommitToFailedReads) {
  {
    auto db = database(*disk_);
    ASSERT_TRUE(db);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(insert(*db, i));
    disk_->cut();
  }
  const test::DiskImage image = disk_->image();
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SimDisk disk(image, seed * 100 + static_cast<std::uint64_t>(GetParam()));
    if (disk_->page_key()) disk.seal_databases(std::make_shared<PageKey>(secret_));
    disk.faults.read = 0.03;
    refused += !database(disk, Database::Mode::read_write);
    disk.faults = {};
    auto db = database(disk, Database::Mode::read_write);
    ASSERT_TRUE(db) << seed << ": " << db.error().message;
    const auto found = count(*db);
    ASSERT_TRUE(found) << seed << ": " << found.error().message;
    EXPECT_EQ(*found, 5) << seed;
  }
  EXPECT_GT(refused, 0);
}

TEST_P(SimDiskTest, SqliteReadsBesideTheWriter) {
  auto writer = database(*disk_);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(insert(*writer, 0));
  auto reader = database(*disk_, Database::Mode::read_only);
  ASSERT_TRUE(reader) << reader.error().message;
  auto rows = reader->prepare("SELECT n FROM t");
  ASSERT_TRUE(rows);
  ASSERT_TRUE(*rows->step());
  ASSERT_TRUE(insert(*writer, 1));
  EXPECT_FALSE(*rows->step()) << "the reader keeps its snapshot";
  auto second = database(*disk_);
  ASSERT_TRUE(second);
  ASSERT_TRUE(writer->begin());
  EXPECT_FALSE(second->begin()) << "there is one writer at a time";
  writer->rollback();
  EXPECT_TRUE(second->begin());
}

TEST_P(SimDiskTest, SqliteGetsOverAFullDisk) {
  auto db = database(*disk_);
  ASSERT_TRUE(db);
  ASSERT_TRUE(insert(*db, 0));
  disk_->leave_space(2 * test::kDiskPage);
  Status status;
  std::int64_t next = 1;
  while (status && next < 100) status = insert(*db, next++);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::disk_full);
  disk_->leave_space({});
  EXPECT_TRUE(insert(*db, next - 1));
  auto found = count(*db);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, next);
}

// A log that a power cut left torn is not mistaken for one that was changed afterwards, whatever
// the instant within commits, copies of the log, and transactions that exceed SQLite's memory.
TEST_P(SimDiskTest, NoPowerCutIsTakenForDamage) {
  const auto work = [&](Database& db, std::int64_t from) -> Status {
    S3O_TRY(db.execute("PRAGMA cache_size = 10"));
    for (std::int64_t i = from; i < from + 12; ++i) {
      S3O_TRY(insert(db, i));
      if (i % 5 == 4) S3O_TRY(db.execute("PRAGMA wal_checkpoint(PASSIVE)"));
      if (i % 4 != 3) continue;
      // These pages are written to the log before the commit, and then again.
      S3O_TRY(db.begin());
      for (int round = 0; round < 3; ++round)
        S3O_TRY(db.execute("UPDATE t SET b = randomblob(900)"));
      if (i % 8 == 3)
        S3O_TRY(db.commit("rows"));
      else
        db.rollback();
    }
    return {};
  };
  for (std::uint64_t cut = static_cast<std::uint64_t>(GetParam()); cut < 700; cut += 20) {
    SimDisk disk(test::DiskImage{}, cut);
    if (disk_->page_key()) disk.seal_databases(std::make_shared<PageKey>(Seed{}));
    {
      auto db = database(disk);
      ASSERT_TRUE(db);
      for (std::int64_t i = 0; i < 60; ++i) ASSERT_TRUE(insert(*db, i));
      disk.cut_after(cut);
      ASSERT_TRUE(work(*db, 60));
      if (!disk.is_cut()) disk.cut();
    }
    const auto next = disk.next_life();
    auto db = database(*next);
    ASSERT_TRUE(db) << cut << ": " << db.error().message;
    const auto found = count(*db);
    ASSERT_TRUE(found) << cut << ": " << found.error().message;
    EXPECT_GE(*found, 60) << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimDiskTest, testing::Range(1, 21));

}  // namespace
}  // namespace s3oram
