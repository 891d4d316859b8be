// Tests backups of the tables of files, and what they restore when vault.db is gone.
#include <atomic>
#include <bit>
#include <future>
#include <map>
#include <random>
#include <thread>

#include "fused/backup/backup_format.h"
#include "fused/backup/restore_files.h"
#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

class BackupTest : public FileSystemFixture {
 protected:
  void SetUp() override {
    options.back_up_every = std::chrono::hours(1);
    FileSystemFixture::SetUp();
  }
  /// From now on, the device's disk has room for this many blocks.
  void mount_with_room_for(std::uint64_t blocks) {
    unmount();
    options.cache.free_bytes = [this, blocks] {
      const std::uint64_t used = device->mapped().size();
      return used < blocks ? (blocks - used) * kTestBlock : 0;
    };
    mount();
  }
  void back_up() {
    const auto outcome = fs->back_up();
    ASSERT_TRUE(outcome) << std::strerror(outcome.error());
  }
  Ino write_file(const std::string& name, const std::string& content) {
    const Ino ino = create(name);
    write(ino, 0, content);
    fs->closed(ino);
    fs->forget(ino, 1);
    return ino;
  }
  /// Loses the machine: another one finds only what the device holds. `change` may change that.
  void lose(const std::function<void(BackupSearch&)>& change = [](BackupSearch&) {}) {
    const auto contents = device->acknowledged();
    device->stop();
    fs.reset();
    device.reset();
    const std::string database = (folder.path() / "vault.db").string();
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(database + suffix);
    device = std::make_unique<MemoryDevice>(database, kTestBlock);
    std::vector<BlockId> backups;
    for (const auto& [block, content] : contents) {
      if (decode_backup_part(content)) backups.push_back(block);
      device->write(block, content, [](Status) {});
    }
    restore_ = std::make_unique<FilesRestore>();
    BackupSearch search;
    search.candidates = backups;
    change(search);
    restored_ = restore_->run(*device, search);
    if (!restored_) return;
    auto mounted = FileSystem::mount(*device, database, options);
    ASSERT_TRUE(mounted) << mounted.error().message;
    fs = std::move(*mounted);
  }
  std::map<std::string, std::string> files() {
    std::map<std::string, std::string> found;
    const auto entries = fs->list(kRootIno);
    EXPECT_TRUE(entries);
    for (const auto& entry : *entries)
      if ((entry.type & S_IFMT) == S_IFREG) found[entry.name] = read(find(entry.name));
    return found;
  }

  std::unique_ptr<FilesRestore> restore_;  // outlives the device
  Result<RestoredFiles> restored_;
};

TEST_F(BackupTest, NamesAttributesAndDataComeBack) {
  const std::string large = pattern(5 * kTestBlock + 17), small = pattern(100, 2);
  const Ino directory = create("directory", S_IFDIR | 0750);
  write(create("large", S_IFREG | 0640, directory), 0, large);
  write_file(std::string("odd \n\xff name"), small);
  ASSERT_TRUE(fs->make({}, kRootIno, "link", {S_IFLNK | 0777, 0, "directory/large"}));
  ASSERT_TRUE(fs->set_xattr(directory, "user.what", std::string("a\0b", 3), 0));
  AttributeChange times;
  times.mtime = -5'000'000'001;
  ASSERT_TRUE(fs->setattr(directory, times));
  ASSERT_TRUE(fs->sync_all());
  const auto before = fs->getattr(directory);
  back_up();
  lose();
  ASSERT_TRUE(restored_) << restored_.error().message;
  EXPECT_EQ(restored_->blocks, 1u);
  const Ino found = find("directory");
  const auto after = fs->getattr(found);
  ASSERT_TRUE(before && after);
  EXPECT_EQ(after->st_ino, before->st_ino);
  EXPECT_EQ(after->st_mode, before->st_mode);
  EXPECT_EQ(after->st_mtim.tv_sec, before->st_mtim.tv_sec);
  EXPECT_EQ(after->st_mtim.tv_nsec, before->st_mtim.tv_nsec);
  EXPECT_EQ(fs->get_xattr(found, "user.what").value_or(""), std::string("a\0b", 3));
  EXPECT_EQ(read(find("large", found)), large);
  EXPECT_EQ(read(find("odd \n\xff name")), small);
  EXPECT_EQ(fs->readlink(find("link")).value_or(""), "directory/large");
  // The restored file system can be used.
  write_file("new", pattern(3 * kTestBlock, 3));
  remount();
  EXPECT_EQ(read(find("new")), pattern(3 * kTestBlock, 3));
}

// A backup must not turn such a row into a valid one.
TEST_F(BackupTest, ARowThatHasChangedByItselfIsInNoBackup) {
  write_file("a", "content");
  write_file("b", "others");
  write_file("c", "the third");
  ASSERT_TRUE(fs->sync_all());
  {
    auto database =
        Database::open((folder.path() / "vault.db").string(), Database::Mode::read_write);
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->execute("UPDATE inodes SET size = 5 WHERE size = 7"));
  }
  {
    // One flipped bit turns an integer into a value of another type; another turns a key into that
    // of another row.
    auto database =
        Database::open((folder.path() / "vault.db").string(), Database::Mode::read_write);
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->execute(
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'rdev INTEGER "
        "NOT NULL', 'rdev INTEGER') WHERE name = 'inodes'"));
  }
  {
    auto database =
        Database::open((folder.path() / "vault.db").string(), Database::Mode::read_write);
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->execute("UPDATE inodes SET rdev = NULL WHERE size = 9"));
  }
  // No backup is made with such rows; a restore keeps them from a vault.db that still exists.
  EXPECT_EQ(fs->back_up().error(), EUCLEAN);
  const std::string database = (folder.path() / "vault.db").string();
  unmount();
  const auto dump = dump_files(database);
  ASSERT_TRUE(dump) << dump.error().message;
  ASSERT_TRUE(store_files(database, *dump));
  {
    auto stored = Database::open(database, Database::Mode::read_only);
    auto rows = stored->prepare("SELECT COUNT(*) FROM inodes");
    ASSERT_TRUE(rows && *rows->step());
    EXPECT_EQ(rows->integer(0), 4) << "a row with a null is damage that must not be forgotten";
  }
  mount();
  EXPECT_EQ(fs->lookup(kRootIno, "c").error(), EIO);
  const auto changed = fs->lookup(kRootIno, "a");
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error(), EIO);
  EXPECT_EQ(read(find("b")), "others");
}

// Handles of inodes that were gone before the backup must not find others, however many they were.
TEST_F(BackupTest, NumbersThatWereGivenOutBeforeItAreNotUsedAgain) {
  constexpr Ino kGivenOut = 3 * kSkippedByRestore;
  write_file("kept", "content");
  unmount();
  {
    auto database =
        Database::open((folder.path() / "vault.db").string(), Database::Mode::read_write);
    ASSERT_TRUE(database);
    ASSERT_TRUE(note_reserved(*database, kGivenOut));  // as if their inodes were gone
  }
  mount();
  back_up();
  lose();
  ASSERT_TRUE(restored_) << restored_.error().message;
  EXPECT_GE(create("new"), kGivenOut + kSkippedByRestore);
  EXPECT_EQ(read(find("kept")), "content");
}

TEST_F(BackupTest, ADumpOfAnOlderVersionDoesNotSayWhichNumbersWereGivenOut) {
  write_file("kept", "content");
  ASSERT_TRUE(fs->sync_all());
  auto dump = TablesDump::open((folder.path() / "vault.db").string(), system_disk(),
                               TablesDump::Damaged::refused);
  ASSERT_TRUE(dump);
  auto bytes = dump->next(1 << 20);
  ASSERT_TRUE(bytes);
  auto database = Database::open((folder.path() / "other.db").string(), Database::Mode::create);
  ASSERT_TRUE(database && make_tables(*database));
  const auto load = [&] {
    EXPECT_TRUE(database->begin());
    auto loaded = load_tables(*database, *bytes);
    EXPECT_TRUE(loaded);
    database->rollback();
    return loaded ? loaded->reserved : Ino{1};
  };
  const Ino said = load();
  EXPECT_GT(said, find("kept"));
  bytes->resize(bytes->size() - 1 - (std::bit_width(2 * said) + 7) / 8);  // without that value
  EXPECT_EQ(load(), 0u);
}

// A restore that was cut short is run again, and must then know that the backup has more names.
TEST_F(BackupTest, ThatRowsAreLostIsKnownInTheNewFileToo) {
  write_file("kept", "content");
  unmount();
  const std::string path = (folder.path() / "vault.db").string();
  const auto stored = [&](bool lost) {
    {
      auto database = Database::open(path, Database::Mode::read_write);
      EXPECT_TRUE(database && note_current(*database, lost ? std::optional(kRowsLost) : 7));
    }
    const auto dump = dump_files(path);
    EXPECT_TRUE(dump && store_files(path, *dump));
    auto database = Database::open(path, Database::Mode::read_only);
    return database ? read_current(*database).value_or(8) : 8;
  };
  EXPECT_EQ(stored(true), kRowsLost);
  EXPECT_EQ(stored(false), std::nullopt);
  mount();
}

TEST_F(BackupTest, ManyNamesTakeSeveralBlocks) {
  for (unsigned i = 0; i < 300; ++i) write_file(fmt::format("file {}", i), pattern(50, i));
  ASSERT_TRUE(fs->sync_all());
  back_up();
  lose();
  ASSERT_TRUE(restored_) << restored_.error().message;
  EXPECT_GT(restored_->blocks, 5u);
  const auto found = files();
  EXPECT_EQ(found.size(), 300u);
  for (unsigned i = 0; i < 300; ++i)
    ASSERT_EQ(found.at(fmt::format("file {}", i)), pattern(50, i)) << i;
}

TEST_F(BackupTest, WhatWasDeletedOrReplacedSinceIsAsItWas) {
  const std::string former = pattern(3 * kTestBlock), piece = pattern(70, 2);
  write_file("deleted", former);
  write_file("replaced", former);
  write_file("piece", piece);
  ASSERT_TRUE(fs->sync_all());
  back_up();
  ASSERT_TRUE(fs->unlink(kRootIno, "deleted"));
  ASSERT_TRUE(fs->unlink(kRootIno, "piece"));
  write_file("fresh", pattern(3 * kTestBlock, 9));
  ASSERT_TRUE(fs->sync_all());
  ASSERT_TRUE(fs->rename(kRootIno, "fresh", kRootIno, "replaced", 0));
  for (unsigned i = 0; i < 5; ++i) {
    write_file(fmt::format("more {}", i), pattern(2 * kTestBlock, i));
    ASSERT_TRUE(fs->sync_all());
  }
  EXPECT_GT(fs->status().backup.held, 6u);
  lose();
  ASSERT_TRUE(restored_) << restored_.error().message;
  const auto found = files();
  EXPECT_EQ(found.size(), 3u);
  EXPECT_EQ(found.at("deleted"), former);
  EXPECT_EQ(found.at("replaced"), former);
  EXPECT_EQ(found.at("piece"), piece);
}

TEST_F(BackupTest, WhatIsHeldComesFreeWithTheNextOne) {
  write_file("large", pattern(20 * kTestBlock));
  ASSERT_TRUE(fs->sync_all());
  back_up();
  ASSERT_TRUE(fs->unlink(kRootIno, "large"));
  ASSERT_TRUE(fs->sync_all());
  EXPECT_EQ(fs->status().backup.held, 20u);
  crash();
  mount();
  EXPECT_EQ(device->mapped().size(), 21u);
  back_up();
  EXPECT_EQ(fs->status().backup.held, 0u);
  ASSERT_TRUE(fs->sync_all());
  EXPECT_LT(device->mapped().size(), 6u);
}

TEST_F(BackupTest, WhatIsHeldComesFreeWhenThereIsNeed) {
  mount_with_room_for(60);
  write_file("first", pattern(35 * kTestBlock));
  ASSERT_TRUE(fs->sync_all());
  back_up();
  ASSERT_TRUE(fs->unlink(kRootIno, "first"));
  const auto space = fs->statfs();
  ASSERT_TRUE(space);
  EXPECT_GE(space->f_bfree, 50u);
  write_file("second", pattern(35 * kTestBlock, 2));
  ASSERT_TRUE(fs->sync_all());
  EXPECT_EQ(read(find("second")), pattern(35 * kTestBlock, 2));
  const Ino ino = create("third");
  const auto third = fs->write(ino, 0, as_bytes(pattern(35 * kTestBlock)), false);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error(), ENOSPC);
}

// While tables are damaged, no backup is made. Writes must not wait for one.
TEST_F(BackupTest, RoomThatNoBackupCanReleaseIsNotWaitedFor) {
  mount_with_room_for(60);
  write_file("first", pattern(35 * kTestBlock));
  ASSERT_TRUE(fs->set_xattr(create("kept"), "user.note", "kept", 0));
  write_file("second", "");
  unmount();
  {
    auto database =
        Database::open((folder.path() / "vault.db").string(), Database::Mode::read_write);
    ASSERT_TRUE(database && database->execute("UPDATE xattrs SET value = x'00'"));
  }
  mount();
  ASSERT_TRUE(fs->unlink(kRootIno, "first"));
  ASSERT_TRUE(fs->sync_all());
  EXPECT_EQ(fs->status().backup.held, 35u);
  const auto second = fs->write(find("second"), 0, as_bytes(pattern(35 * kTestBlock)), false);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), ENOSPC);
}

TEST_F(BackupTest, MuchThatIsHeldMakesOneDueAtOnce) {
  write_file("large", pattern(100 * kTestBlock));
  ASSERT_TRUE(fs->sync_all());
  back_up();
  ASSERT_TRUE(fs->unlink(kRootIno, "large"));
  ASSERT_TRUE(fs->sync_all());
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (fs->status().backup.held > 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(fs->status().backup.held, 0u);
}

TEST_F(BackupTest, TheRoomOfLargerTablesComesFree) {
  write_file("kept", "content");
  ASSERT_TRUE(fs->sync_all());
  const auto name = [](unsigned i) { return std::to_string(i) + std::string(200, 'n'); };
  for (unsigned i = 0; i < 300; ++i) write_file(name(i), "");
  back_up();
  back_up();
  const std::uint64_t most = fs->status().backup.blocks;
  ASSERT_GT(most, 20u);
  for (unsigned i = 0; i < 300; ++i) ASSERT_TRUE(fs->unlink(kRootIno, name(i)));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int i = 0; i < 4; ++i) back_up();
  EXPECT_LE(fs->status().backup.blocks, 4u);
  EXPECT_EQ(fs->status().backup.held, 0u);
  EXPECT_TRUE(fs->status().backup.current);
  while (device->acknowledged().size() > 5 && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_LE(device->acknowledged().size(), 5u);
  lose();
  ASSERT_TRUE(restored_) << restored_.error().message;
  EXPECT_EQ(files(), (std::map<std::string, std::string>{{"kept", "content"}}));
}

TEST_F(BackupTest, WhetherItIsOfEverythingIsKnownToLaterMounts) {
  write_file("first", "1");
  ASSERT_TRUE(fs->sync_all());
  EXPECT_FALSE(fs->status().backup.current);
  back_up();
  EXPECT_TRUE(fs->status().backup.current);
  const auto time = fs->status().backup.time;
  for (const bool read_only : {false, true, false}) {
    options.read_only = read_only;
    remount();
    EXPECT_TRUE(fs->status().backup.current);
  }
  ASSERT_TRUE(fs->sync_all());
  EXPECT_TRUE(fs->status().backup.current);
  EXPECT_EQ(fs->status().backup.time, time) << "a second backup of the same state was made";

  write_file("second", "2");
  ASSERT_TRUE(fs->sync_all());
  EXPECT_FALSE(fs->status().backup.current);
  crash();
  mount();
  EXPECT_FALSE(fs->status().backup.current);
  remount();
  EXPECT_TRUE(fs->status().backup.current) << "the unmount makes a backup";
  EXPECT_GT(fs->status().backup.time, time);
}

TEST_F(BackupTest, WhatCommitsWithItIsNotInIt) {
  write_file("first", "1");
  ASSERT_TRUE(fs->sync_all());
  device->hold_writes(true);
  std::thread backup([&] { back_up(); });
  ASSERT_TRUE(device->wait_held_writes(1));
  create("second");
  device->hold_writes(false);
  backup.join();
  EXPECT_FALSE(fs->status().backup.current);
  crash();
  mount();
  EXPECT_TRUE(find("second"));
  EXPECT_FALSE(fs->status().backup.current);
}

TEST_F(BackupTest, FilesThatCameAndWentHoldNothing) {
  back_up();
  for (unsigned i = 0; i < 12; ++i) {
    write_file("temporary", pattern(4 * kTestBlock, i));
    ASSERT_TRUE(fs->sync_all());
    ASSERT_TRUE(fs->unlink(kRootIno, "temporary"));
    ASSERT_TRUE(fs->sync_names());
  }
  EXPECT_EQ(fs->status().backup.held, 0u);
  EXPECT_LT(device->mapped().size(), 10u);
}

TEST_F(BackupTest, TheFormerOneIsThereUntilTheNextIsWhole) {
  write_file("first", "1");
  ASSERT_TRUE(fs->sync_all());
  back_up();
  write_file("second", "2");
  ASSERT_TRUE(fs->sync_all());
  back_up();
  for (unsigned i = 0; i < 200; ++i) write_file(fmt::format("file {}", i), pattern(50, i));
  ASSERT_TRUE(fs->sync_all());
  options.cache.deadline = std::chrono::seconds(20);
  device->hold_writes(true);
  std::thread backup([&] { EXPECT_FALSE(fs->back_up()); });
  ASSERT_TRUE(device->wait_held_writes(3));
  device->release_write();
  ASSERT_TRUE(device->wait_held_writes(3));
  device->fail_writes(true);
  device->hold_writes(false);
  backup.join();
  EXPECT_FALSE(fs->status().backup.current);
  lose();
  ASSERT_TRUE(restored_) << restored_.error().message;
  const auto found = files();
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at("second"), "2");
}

// The end of a mount waits only for the blocks in flight, not for the whole backup.
TEST_F(BackupTest, OneUnderWayIsEndedAndTheLastOneStaysWhole) {
  write_file("first", "1");
  ASSERT_TRUE(fs->sync_all());
  back_up();
  for (unsigned i = 0; i < 400; ++i) create(std::to_string(i) + std::string(200, 'n'));
  ASSERT_TRUE(fs->sync_all());
  device->hold_writes(true);
  std::thread backup([&] { EXPECT_EQ(fs->back_up().error(), ECANCELED); });
  ASSERT_TRUE(device->wait_held_writes(3));
  const auto before = device->counts().writes;
  fs->end_backups();
  device->hold_writes(false);
  backup.join();
  EXPECT_LE(device->counts().writes, before + 8);
  EXPECT_FALSE(fs->status().backup.current);
  EXPECT_EQ(fs->back_up().error(), ECANCELED) << "another one begins";
  lose();
  ASSERT_TRUE(restored_) << restored_.error().message;
  EXPECT_EQ(files(), (std::map<std::string, std::string>{{"first", "1"}}));
}

// The backup that an unmount makes has everything that an ended backup did not save.
TEST_F(BackupTest, AnUnmountMakesTheOneThatWasEnded) {
  write_file("first", "1");
  ASSERT_TRUE(fs->sync_all());
  fs->end_backups();
  EXPECT_EQ(fs->back_up().error(), ECANCELED);
  EXPECT_FALSE(fs->status().backup.exists);
  remount();
  EXPECT_TRUE(fs->status().backup.current);
  back_up();
}

// The check of a large file takes long, and does not call `stop` meanwhile.
TEST_F(BackupTest, TheCheckOfVaultDbCanBeInterrupted) {
  write_file("first", "1");
  ASSERT_TRUE(fs->sync_all());
  const std::string database = (folder.path() / "vault.db").string();
  auto dump = TablesDump::open(database, system_disk(), TablesDump::Damaged::refused);
  ASSERT_TRUE(dump);
  ASSERT_TRUE(dump->check_file());
  dump->interrupt();
  EXPECT_FALSE(dump->check_file());
}

// An interrupted check does not count as damage.
TEST_F(BackupTest, EndingOneLeavesNoDamage) {
  for (unsigned i = 0; i < 400; ++i) create(std::to_string(i) + std::string(200, 'n'));
  ASSERT_TRUE(fs->sync_all());
  std::atomic<bool> ended = false;
  std::thread backup([&] {
    while (!ended) static_cast<void>(fs->back_up());
  });
  const auto commits = device->counts().commits;
  while (device->counts().commits < commits + 2) std::this_thread::yield();
  fs->end_backups();
  ended = true;
  backup.join();
  EXPECT_EQ(fs->status().damage, 0u);
}

TEST_F(BackupTest, WithoutRoomTheLastOneStaysUnlessItIsInTheWay) {
  write_file("first", pattern(5 * kTestBlock));
  ASSERT_TRUE(fs->sync_all());
  back_up();
  for (unsigned i = 0; i < 200; ++i) create(fmt::format("file {}", i));
  ASSERT_TRUE(fs->sync_all());
  device->fill_up(true);
  EXPECT_EQ(fs->back_up().error(), ENOSPC);
  EXPECT_TRUE(fs->status().backup.exists);
  lose();
  ASSERT_TRUE(restored_) << restored_.error().message;
  EXPECT_EQ(files().size(), 1u);
  for (unsigned i = 0; i < 200; ++i) create(fmt::format("file {}", i));
  fs->forget(find("first"), 2);
  ASSERT_TRUE(fs->unlink(kRootIno, "first"));
  ASSERT_TRUE(fs->sync_all());
  EXPECT_EQ(fs->status().backup.held, 5u);
  device->fill_up(true);
  EXPECT_EQ(fs->back_up().error(), ENOSPC);
  EXPECT_FALSE(fs->status().backup.exists);
  EXPECT_EQ(fs->status().backup.held, 0u);
  device->fill_up(false);
  back_up();
  lose();
  ASSERT_TRUE(restored_) << restored_.error().message;
  EXPECT_EQ(files().size(), 200u);
}

// A write that failed while freed blocks were held back is tried again when they are released.
TEST_F(BackupTest, RoomThatABackupGivesBackIsUsedByWhoWaits) {
  unmount();
  options.cache.retry = std::chrono::milliseconds(500);
  mount();
  write_file("first", pattern(5 * kTestBlock));
  ASSERT_TRUE(fs->sync_all());
  back_up();
  fs->forget(find("first"), 2);
  ASSERT_TRUE(fs->unlink(kRootIno, "first"));
  ASSERT_TRUE(fs->sync_all());
  ASSERT_EQ(fs->status().backup.held, 5u);
  const Ino ino = create("second");
  device->fill_up(true);
  write(ino, 0, pattern(3 * kTestBlock));
  std::thread waits([&] { sync(ino); });
  while (fs->status().failing_bytes == 0) continue;
  device->fill_up(false);
  back_up();
  waits.join();
}

// Blocks that only the backup before the last one names may hold other files by now.
TEST_F(BackupTest, OneThatMayNotBeTheLastIsUsedOnlyOnDemand) {
  write_file("former", pattern(3 * kTestBlock));
  ASSERT_TRUE(fs->sync_all());
  back_up();
  ASSERT_TRUE(fs->unlink(kRootIno, "former"));
  back_up();
  for (const bool accept : {false, true}) {
    lose([accept](BackupSearch& search) {
      ASSERT_EQ(search.candidates.size(), 2u);
      search.candidates.pop_back();
      search.blocks_lost = true;
      search.accept_older = accept;
    });
    ASSERT_EQ(restored_.has_value(), accept);
    if (!accept) {
      EXPECT_EQ(restored_.error().code, Errc::corrupt);
    }
  }
  EXPECT_TRUE(find("former"));
}

/// Cannot read one block of another device.
class OneBlockLost final : public BlockDevice {
 public:
  OneBlockLost(BlockDevice& device, BlockId lost) : device_(device), lost_(lost) {}
  std::uint32_t block_size() const override { return device_.block_size(); }
  void read(BlockId block, std::function<void(Result<Bytes>)> done) override {
    if (block != lost_) return device_.read(block, std::move(done));
    done(fail(Errc::corrupt, "block {} is lost", block));
  }
  void write(BlockId, Bytes, std::function<void(Status)>) override {}
  void write_backup(BlockId, Bytes, std::function<void(Status)>) override {}
  void discard(BlockId) override {}
  void commit(std::function<void(Status)> done) override { device_.commit(std::move(done)); }
  void set_participant(CommitParticipant* participant) override {
    device_.set_participant(participant);
  }
  void look_for_room() override {}
  std::uint64_t steps() const override { return 0; }
  std::vector<BlockId> mapped() override { return device_.mapped(); }

 private:
  BlockDevice& device_;
  const BlockId lost_;
};

TEST_F(BackupTest, WhetherItIsTheLastIsToldByWhatIsLeft) {
  constexpr std::size_t kParts = 3;
  MemoryDevice memory((folder.path() / "other.db").string(), kTestBlock);
  const auto put = [&](BlockId first, std::uint64_t generation, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      BackupPart part;
      part.generation = generation;
      part.index = static_cast<std::uint32_t>(i);
      if (i + 1 == kParts) part.count = kParts;
      std::promise<Status> written;
      memory.write(first + i, encode(part, kTestBlock),
                   [&](Status status) { written.set_value(std::move(status)); });
      ASSERT_TRUE(written.get_future().get());
    }
  };
  const auto refused = [&](BlockId lost, bool blocks_lost = false) {
    OneBlockLost lossy(memory, lost);
    FilesRestore restore;
    const auto restored = restore.run(
        lossy, {.candidates = memory.mapped(), .blocks_lost = blocks_lost, .accept_older = false});
    memory.set_participant(nullptr);
    return !restored && restored.error().code == Errc::corrupt;
  };
  constexpr BlockId kNone = 1000, kOlder = 10, kNewer = 20;
  put(kOlder, 5, 0, kParts);
  EXPECT_FALSE(refused(kNone));
  EXPECT_TRUE(refused(kNone, true)) << "there may have been a newer one";
  put(kNewer, 6, 0, 1);
  EXPECT_FALSE(refused(kNone)) << "the newer one is unfinished";
  EXPECT_TRUE(refused(kNewer));
  put(kNewer, 6, 2, kParts);
  EXPECT_TRUE(refused(kNone)) << "the newer one had a last part";
  put(kNewer, 6, 0, kParts);
  EXPECT_FALSE(refused(kNone));
  EXPECT_FALSE(refused(kOlder)) << "only the older one is not whole";
  EXPECT_FALSE(refused(kOlder, true));
  for (BlockId lost = kNewer; lost < kNewer + kParts; ++lost) EXPECT_TRUE(refused(lost)) << lost;
}

TEST_F(BackupTest, WithoutAWholeOneNothingIsMade) {
  write_file("first", "1");
  ASSERT_TRUE(fs->sync_all());
  lose();
  ASSERT_FALSE(restored_);
  EXPECT_EQ(restored_.error().code, Errc::damaged_vault);
}

/// Files are written once, replaced, renamed and deleted. Whenever the machine is lost, a restore
/// brings back exactly the state of the last backup.
TEST_F(BackupTest, AtAnyInstantTheLastOneIsTrue) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::map<std::string, std::string> now, backed_up;
    bool any = false;
    const unsigned steps = 40 + random() % 200;
    for (unsigned step = 0; step < steps; ++step) {
      const std::string name = fmt::format("name {}", random() % 12);
      const unsigned what = random() % 20;
      if (what < 9) {
        const std::string content =
            pattern(random() % 3 == 0 ? random() % (4 * kTestBlock) : random() % 900, random());
        if (now.contains(name)) {
          const Ino ino = find(name);
          resize(ino, 0);
          write(ino, 0, content);
          fs->closed(ino);
          fs->forget(ino, 1);
        } else {
          write_file(name, content);
        }
        now[name] = content;
      } else if (what < 12 && now.contains(name)) {
        ASSERT_TRUE(fs->unlink(kRootIno, name));
        now.erase(name);
      } else if (what < 14 && now.contains(name)) {
        const std::string other = fmt::format("name {}", random() % 12);
        ASSERT_TRUE(fs->rename(kRootIno, name, kRootIno, other, 0));
        if (other != name) now[other] = std::exchange(now[name], {}), now.erase(name);
      } else if (what < 16) {
        ASSERT_TRUE(fs->sync_all());
      } else if (what == 16) {
        ASSERT_TRUE(fs->sync_all());
        back_up();
        backed_up = now;
        any = true;
      } else if (what == 17) {
        ASSERT_TRUE(fs->sync_all());
        remount();  // which makes a backup
        backed_up = now;
        any = true;
      } else if (what == 18 && any) {
        ASSERT_TRUE(fs->sync_all());
        crash();
        mount();
      }
    }
    if (!any) {
      ASSERT_TRUE(fs->sync_all());
      back_up();
      backed_up = now;
    }
    lose();
    ASSERT_TRUE(restored_) << restored_.error().message;
    EXPECT_EQ(files(), backed_up);
    for (const auto& [name, content] : files()) ASSERT_TRUE(fs->unlink(kRootIno, name));
  }
}

TEST(BackupFormatTest, PartsAreReadAsTheyWereWritten) {
  BackupPart part;
  part.generation = 7;
  part.time = -3;
  part.index = 2;
  part.count = 3;
  part.content = Bytes(100, 9);
  const auto read = decode_backup_part(encode(part, 512));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->generation, 7u);
  EXPECT_EQ(read->time, -3);
  EXPECT_EQ(read->index, 2u);
  EXPECT_EQ(read->count, 3u);
  EXPECT_EQ(read->content, part.content);
  EXPECT_FALSE(decode_backup_part(Bytes(512)));
  EXPECT_FALSE(decode_backup_part(Bytes(3)));
}

}  // namespace
}  // namespace s3oram
