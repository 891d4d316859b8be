// Files through FileSystem, against a model, and what they cost in accesses.
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>

#include <atomic>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

class FileTest : public FileSystemFixture {};

TEST_F(FileTest, SmallFileSurvivesARemount) {
  write(create("a"), 0, "hello");
  remount();
  const Ino ino = find("a");
  EXPECT_EQ(read(ino), "hello");
  EXPECT_EQ(fs->getattr(ino)->st_blocks, 1);
}

TEST_F(FileTest, BeyondTheValidBytesReadsZero) {
  const Ino ino = create("a");
  write(ino, 0, std::string(3 * kTestBlock, 'x'));
  sync(ino);
  resize(ino, kTestBlock + 10);
  resize(ino, 3 * kTestBlock);
  const std::string expected =
      std::string(kTestBlock + 10, 'x') + std::string(2 * kTestBlock - 10, '\0');
  EXPECT_EQ(read(ino), expected);
  remount();
  EXPECT_EQ(read(find("a")), expected);
  write(find("a"), kTestBlock + 20, "y");
  std::string changed = expected;
  changed[kTestBlock + 20] = 'y';
  remount();
  EXPECT_EQ(read(find("a")), changed);
}

TEST_F(FileTest, TruncatingToThePresentSizeMovesNoTimes) {
  const Ino ino = create("a");
  write(ino, 0, "text");
  const auto times = [&] {
    const auto found = *fs->getattr(ino);
    return std::pair(found.st_mtim.tv_sec, found.st_ctim.tv_sec);
  };
  AttributeChange back;
  back.mtime = back.ctime = 1'000'000'000;
  ASSERT_TRUE(fs->setattr(ino, back));
  resize(ino, 4);
  EXPECT_EQ(times(), std::pair(time_t{1}, time_t{1}));
  resize(ino, 3);
  EXPECT_GT(times().first, 1);
  EXPECT_GT(times().second, 1);
}

TEST_F(FileTest, TruncatingWhileTheBlockIsWrittenKeepsItShort) {
  const Ino ino = create("a");
  write(ino, 0, std::string(2 * kTestBlock, 'x'));
  device->hold_writes(true);
  std::thread syncing([&] { sync(ino); });
  ASSERT_TRUE(device->wait_held_writes(2));
  resize(ino, 100);
  resize(ino, 2 * kTestBlock);
  device->hold_writes(false);
  syncing.join();
  const std::string expected = std::string(100, 'x') + std::string(2 * kTestBlock - 100, '\0');
  EXPECT_EQ(read(ino), expected);
  remount();
  EXPECT_EQ(read(find("a")), expected);
  EXPECT_EQ(fs->getattr(find("a"))->st_blocks, kTestBlock / 512);
}

TEST_F(FileTest, ChangesDuringAWriteAreWrittenAgain) {
  const Ino ino = create("a");
  write(ino, 0, "first");
  device->hold_writes(true);
  std::thread syncing([&] { sync(ino); });
  ASSERT_TRUE(device->wait_held_writes(1));
  write(ino, 0, "other");
  device->hold_writes(false);
  syncing.join();
  remount();
  EXPECT_EQ(read(find("a")), "other");
}

TEST_F(FileTest, RemovingAFileWhileItIsWrittenFreesItsBlocks) {
  const Ino ino = create("a");
  write(ino, 0, std::string(2 * kTestBlock, 'x'));
  device->hold_writes(true);
  std::thread syncing([&] { sync(ino); });
  ASSERT_TRUE(device->wait_held_writes(2));
  EXPECT_TRUE(fs->unlink(kRootIno, "a"));
  resize(ino, 0);
  device->hold_writes(false);
  syncing.join();
  fs->forget(ino, 1);
  remount();
  EXPECT_TRUE(device->mapped().empty());
}

/// Counts who waits.
class WatchedTiming final : public Timing {
 public:
  Time now() override { return system_timing().now(); }
  std::int64_t wall_clock() override { return system_timing().wall_clock(); }
  void wait(Lock& lock, std::condition_variable& changed, Time until) override {
    ++waiting_;
    system_timing().wait(lock, changed, until);
    --waiting_;
  }
  bool wait_for_waiting(int count) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (waiting_ < count && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return waiting_ == count;
  }

 private:
  std::atomic<int> waiting_ = 0;
};

TEST_F(FileTest, WhatSomebodyWaitsForIsWrittenBeforeTheRest) {
  unmount();
  WatchedTiming timing;
  options.cache.timing = &timing;
  options.cache.in_flight = 1;
  options.cache.retry = std::chrono::hours(1);  // nobody wakes without a reason
  options.own_ticker = false;
  options.commit_every = std::chrono::milliseconds(0);
  mount();
  write(create("large"), 0, std::string(20 * kTestBlock, 'x'));
  const Ino small = create("small");
  device->hold_writes(true);
  std::thread background([&] { fs->beat(); });
  ASSERT_TRUE(device->wait_held_writes(1));
  ASSERT_TRUE(timing.wait_for_waiting(1));
  write(small, 0, std::string(kTestBlock, 'y'));
  std::thread syncing([&] { sync(small); });
  ASSERT_TRUE(timing.wait_for_waiting(2));
  for (int i = 0; i < 2; ++i) {  // the one on its way, and the awaited one
    ASSERT_TRUE(device->wait_held_writes(1));
    device->release_write();
  }
  syncing.join();  // while all others are held
  device->hold_writes(false);
  background.join();
  unmount();
}

TEST_F(FileTest, FailedWritesStayDirtyAndAreTriedAgain) {
  unmount();
  options.cache.deadline = std::chrono::milliseconds(100);
  mount();
  const Ino ino = create("a");
  write(ino, 0, "kept");
  device->fail_writes(true);
  const auto failed = fs->sync(ino);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error(), EIO);
  EXPECT_GT(fs->status().dirty_bytes, 0u);
  EXPECT_EQ(read(ino), "kept");
  EXPECT_FALSE(fs->sync(ino));  // and not once only
  device->fail_writes(false);
  sync(ino);
  EXPECT_EQ(fs->status().dirty_bytes, 0u);
  crash();
  mount();
  EXPECT_EQ(read(find("a")), "kept");
}

TEST_F(FileTest, ASilentDeviceGivesEioAtTheDeadline) {
  write(create("a"), 0, "x");
  unmount();
  options.cache.deadline = std::chrono::milliseconds(100);
  mount();
  device->hold_reads(true);
  Bytes buffer(10);
  const auto silent = fs->read(find("a"), 0, buffer);
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error(), EIO);
  device->hold_reads(false);
  EXPECT_EQ(read(find("a")), "x");
  EXPECT_EQ(device->counts().reads, 1u);
}

// They succeed without any server, and must not put off the deadline of who waits for one.
TEST_F(FileTest, CommitsAreNoProgressOfASilentDevice) {
  unmount();
  options.cache.deadline = std::chrono::milliseconds(200);
  mount();
  const Ino ino = create("a");
  write(ino, 0, "x");
  device->hold_writes(true);
  std::atomic<bool> ended = false;
  std::thread syncing([&] {
    const auto silent = fs->sync(ino);
    EXPECT_FALSE(silent);
    EXPECT_EQ(silent.error(), EIO);
    ended = true;
  });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!ended && std::chrono::steady_clock::now() < limit) EXPECT_TRUE(fs->sync_names());
  EXPECT_TRUE(ended);
  device->hold_writes(false);
  syncing.join();
  sync(ino);
}

TEST_F(FileTest, AFailedReadIsNotRemembered) {
  write(create("a"), 0, "x");
  remount();
  device->fail_reads(true);
  Bytes buffer(10);
  EXPECT_EQ(fs->read(find("a"), 0, buffer).error(), EIO);
  device->fail_reads(false);
  EXPECT_EQ(read(find("a")), "x");
}

TEST_F(FileTest, DirtyDataIsBounded) {
  const Ino ino = create("a");
  const std::size_t most = options.cache.limit / 2 + kTestBlock;
  for (std::uint64_t i = 0; i < 2048; ++i) {
    write(ino, i * kTestBlock, std::string(kTestBlock, 'x'));
    ASSERT_LE(fs->status().dirty_bytes, most);
    ASSERT_LE(fs->status().cache_bytes, options.cache.limit + kTestBlock);
  }
}

TEST_F(FileTest, AttributesThatWaitForACommitAreBoundedToo) {
  unmount();
  options.most_uncommitted = 1 << 20;
  mount();
  const Ino ino = create("a");
  const std::string large(60'000, 'x');
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(fs->set_xattr(ino, "user." + std::to_string(i), large, 0));
    ASSERT_LT(fs->status().uncommitted_rows, 30u);
  }
  // What replaces another does not count twice.
  const auto commits = device->counts().commits;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(fs->set_xattr(ino, "user.0", large, 0));
  EXPECT_LE(device->counts().commits, commits + 1);
}

TEST_F(FileTest, AFullDiskIsSaidBeforeDataIsTaken) {
  unmount();
  std::uint64_t room = 0;
  options.cache.free_bytes = [&] { return room; };
  mount();
  const Ino ino = create("a");
  EXPECT_EQ(fs->write(ino, 0, as_view("x"), false).error(), ENOSPC);
  EXPECT_EQ(fs->getattr(ino)->st_size, 0);
  EXPECT_TRUE(device->take_looked_for_room()) << "nothing else would find that there is room again";
  room = 1u << 30;
  write(ino, 0, "x");
  EXPECT_FALSE(device->take_looked_for_room());
}

TEST_F(FileTest, FreeIsWhatEveryDiskHasRoomFor) {
  unmount();
  std::uint64_t servers = 1u << 30, database = 1u << 20;
  options.cache.free_bytes = [&] { return servers; };
  options.database_room = [&] { return database; };
  mount();
  const auto free_bytes = [&] {
    const auto stat = fs->statfs().value();
    return stat.f_bavail * stat.f_frsize;
  };
  EXPECT_EQ(free_bytes(), database);
  servers = 1u << 16;
  EXPECT_EQ(free_bytes(), servers);
  database = 0;
  EXPECT_EQ(free_bytes(), 0u);
}

TEST_F(FileTest, WhatCannotHaveRoomIsNotAllocated) {
  unmount();
  std::uint64_t room = 10 * kTestBlock;
  options.cache.free_bytes = [&] { return room; };
  mount();
  const Ino ino = create("a");
  EXPECT_EQ(fs->fallocate(ino, 0, 0, 10 * kTestBlock + 1).error(), ENOSPC);
  EXPECT_EQ(fs->fallocate(ino, FALLOC_FL_KEEP_SIZE, 1, 1ull << 44).error(), ENOSPC);
  EXPECT_EQ(fs->getattr(ino)->st_size, 0);
  EXPECT_TRUE(fs->fallocate(ino, 0, 0, 10 * kTestBlock));
  room = 1u << 30;
  write(ino, 0, pattern(8 * kTestBlock));
  sync(ino);
  room = 2 * kTestBlock;
  EXPECT_TRUE(fs->fallocate(ino, 0, 0, 10 * kTestBlock)) << "most of it is there";
  EXPECT_EQ(fs->fallocate(ino, 0, 0, 10 * kTestBlock + 1).error(), ENOSPC);
  EXPECT_TRUE(fs->fallocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1ull << 44));
}

// The kernel takes any offset before it asks, and a failure comes too late.
TEST_F(FileTest, FilesEndWhereAllNumbersDo) {
  constexpr std::uint64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const Ino ino = create("a");
  write(ino, 0, "start");
  write(ino, kEnd - 5000, std::string(4999, 'y') + 'z');
  EXPECT_EQ(fs->write(ino, kEnd, as_view("x"), false).error(), EFBIG);
  EXPECT_EQ(fs->write(ino, kEnd - 1, as_view("xx"), false).error(), EFBIG);
  remount();
  const Ino found = find("a");
  EXPECT_EQ(fs->getattr(found)->st_size, static_cast<off_t>(kEnd));
  EXPECT_EQ(*fs->seek(found, kTestBlock, SEEK_DATA) % kTestBlock, 0u);
  EXPECT_EQ(*fs->seek(found, kEnd - 1, SEEK_HOLE), kEnd);
  Bytes last(10);
  EXPECT_EQ(*fs->read(found, kEnd - 3, last), 3u);
  EXPECT_EQ(last[2], 'z');
  ASSERT_TRUE(fs->fallocate(found, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5, kEnd - 6));
  EXPECT_EQ(*fs->read(found, kEnd - 3, last), 3u);
  EXPECT_EQ(last[1], 0);
  EXPECT_EQ(last[2], 'z');
  AttributeChange cut;
  cut.size = 5;
  ASSERT_TRUE(fs->setattr(found, cut));
  EXPECT_EQ(read(found), "start");
}

// An error would lose it, and the fsync after the one that reports it would succeed.
TEST_F(FileTest, AFullDiskDoesNotLoseWhatTheKernelHasTaken) {
  unmount();
  std::uint64_t room = 0;
  options.cache.free_bytes = [&] { return room; };
  mount();
  const Ino ino = create("a");
  ASSERT_TRUE(fs->write(ino, 0, as_view("kept"), true));
  EXPECT_TRUE(device->take_looked_for_room());
  EXPECT_EQ(fs->closing(ino).error(), ENOSPC);
  EXPECT_EQ(read(ino), "kept");
  room = 1u << 30;
  sync(ino);
  write(ino, 4, " and more");
  EXPECT_TRUE(fs->closing(ino));
  remount();
  EXPECT_EQ(read(find("a")), "kept and more");
}

// ---- accesses ----------------------------------------------------------------------------------

TEST_F(FileTest, WritingCostsOneAccessABlock) {
  const Ino ino = create("a");
  const std::string text = pattern(10 * kTestBlock + 1);
  for (std::size_t at = 0; at < text.size(); at += 1000) write(ino, at, text.substr(at, 1000));
  sync(ino);
  EXPECT_EQ(accesses(), 11u);
  sync(ino);
  EXPECT_EQ(read(ino), text);
  EXPECT_EQ(accesses(), 0u);
}

TEST_F(FileTest, AFullOverwriteReadsNothing) {
  const Ino ino = create("a");
  write(ino, 0, pattern(kTestBlock + 100));
  remount();
  accesses();
  const Ino again = find("a");
  write(again, 0, pattern(kTestBlock, 2));
  write(again, kTestBlock, pattern(100, 2));  // all of its valid bytes
  sync(again);
  EXPECT_EQ(device->counts().reads, 0u);
  EXPECT_EQ(device->counts().writes, 2u);
  write(again, kTestBlock, "x");
  remount();
  write(find("a"), kTestBlock, "y");  // a part of them: one read
  sync(find("a"));
  EXPECT_EQ(device->counts().reads, 1u);
  EXPECT_EQ(device->counts().writes, 1u);
  EXPECT_EQ(read(find("a"), kTestBlock, 100), "y" + pattern(100, 2).substr(1));
}

TEST_F(FileTest, HolesTruncationAndRemovalCostNothing) {
  const Ino ino = create("a");
  write(ino, 100 * kTestBlock, "end");
  sync(ino);
  EXPECT_EQ(accesses(), 1u);
  EXPECT_EQ(read(ino, 0, 100 * kTestBlock), std::string(100 * kTestBlock, '\0'));
  write(ino, 0, pattern(20 * kTestBlock));
  resize(ino, 0);  // never flushed
  sync(ino);
  EXPECT_TRUE(fs->unlink(kRootIno, "a"));
  fs->forget(ino, 1);
  EXPECT_TRUE(fs->sync_all());
  EXPECT_EQ(accesses(), 0u);
  EXPECT_EQ(device->counts().discards, 1u);
}

TEST_F(FileTest, AnUnlinkedFileIsNotFlushed) {
  const Ino ino = create("a");
  write(ino, 0, pattern(5 * kTestBlock));
  EXPECT_TRUE(fs->unlink(kRootIno, "a"));
  EXPECT_TRUE(fs->sync_all());
  EXPECT_EQ(read(ino), pattern(5 * kTestBlock));
  EXPECT_EQ(accesses(), 0u);
}

TEST_F(FileTest, ReadingCostsOneAccessABlockAndReadsAhead) {
  const std::string text = pattern(100 * kTestBlock);
  write(create("a"), 0, text);
  remount();
  const Ino ino = find("a");
  EXPECT_EQ(read(ino, 0, 10), text.substr(0, 10));
  EXPECT_EQ(device->counts().reads, 1u);
  EXPECT_EQ(read(ino, kTestBlock, 10), text.substr(kTestBlock, 10));
  EXPECT_EQ(device->counts().reads, 4u);  // and two ahead
  for (std::size_t at = 0; at < text.size(); at += 5000)
    ASSERT_EQ(read(ino, at, 5000), text.substr(at, 5000));
  EXPECT_EQ(device->counts().reads, 100u);
  remount();
  EXPECT_EQ(read(find("a"), 50 * kTestBlock, 10), text.substr(50 * kTestBlock, 10));
  EXPECT_EQ(read(find("a"), 20 * kTestBlock, 10), text.substr(20 * kTestBlock, 10));
  EXPECT_EQ(device->counts().reads, 2u);  // no sequence
}

// ---- the model ---------------------------------------------------------------------------------

/// A file as a string.
struct Model {
  std::string text;
  void write(std::size_t at, const std::string& in) {
    if (text.size() < at + in.size()) text.resize(at + in.size());
    text.replace(at, in.size(), in);
  }
  void zero(std::size_t at, std::size_t length) {
    for (std::size_t i = at; i < std::min(text.size(), at + length); ++i) text[i] = '\0';
  }
};

TEST_F(FileTest, RandomOperationsMatchAModel) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::map<std::string, Model> models;
    const std::size_t longest = 12 * kTestBlock;
    for (int step = 0; step < 1500; ++step) {
      const std::string name = "f" + std::to_string(below(4));
      if (!models.contains(name)) {
        create(name);
        models[name];
      }
      Model& model = models[name];
      const Ino ino = find(name);
      const std::size_t at = below(longest), length = 1 + below(3 * kTestBlock);
      switch (below(12)) {
        case 0:
        case 1:
        case 2:
        case 3: {
          const std::string text = pattern(length, random());
          write(ino, at, text);
          model.write(at, text);
          break;
        }
        case 4:
          resize(ino, at);
          model.text.resize(at);
          break;
        case 5:
          EXPECT_TRUE(fs->fallocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length));
          model.zero(at, length);
          break;
        case 6:
          EXPECT_TRUE(fs->fallocate(ino, FALLOC_FL_ZERO_RANGE, at, length));
          if (model.text.size() < at + length) model.text.resize(at + length);
          model.zero(at, length);
          break;
        case 7:
          sync(ino);
          break;
        case 8:
          EXPECT_TRUE(fs->sync_all());
          break;
        case 9:
          if (below(4) == 0) {
            EXPECT_TRUE(fs->unlink(kRootIno, name));
            fs->forget(ino, ~std::uint64_t{0});
            models.erase(name);
          }
          break;
        case 10:
          if (below(10) == 0) remount();
          break;
        default:
          ASSERT_EQ(read(ino, at, length),
                    at < model.text.size() ? model.text.substr(at, length) : "");
      }
    }
    remount();
    for (const auto& [name, model] : models) {
      ASSERT_EQ(read(find(name)), model.text) << name;
      EXPECT_TRUE(fs->unlink(kRootIno, name));
      fs->forget(find(name), 1);
    }
    remount();
    EXPECT_TRUE(device->mapped().empty());
    EXPECT_EQ(fs->status().inodes, 1u);
  }
}

TEST_F(FileTest, ManyThreadsOnManyFiles) {
  unmount();
  options.commit_every = std::chrono::milliseconds(2);
  options.cache.limit = 64 * kTestBlock;
  mount();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      const std::string name = "f" + std::to_string(t);
      const Ino ino = create(name);
      std::mt19937 random(t);
      Model model;
      for (int step = 0; step < 300; ++step) {
        const std::size_t at = random() % (40 * kTestBlock);
        const std::string text = pattern(1 + random() % (2 * kTestBlock), random());
        write(ino, at, text);
        model.write(at, text);
        if (step % 50 == 49) {
          const std::size_t size = random() % (40 * kTestBlock);
          resize(ino, size);
          model.text.resize(size);
        }
        if (step % 20 == 0) sync(ino);
        const std::size_t from = random() % (40 * kTestBlock);
        EXPECT_EQ(read(ino, from, 5000),
                  from < model.text.size() ? model.text.substr(from, 5000) : "");
      }
      EXPECT_EQ(read(ino), model.text);
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(FileTest, SeekFindsDataAndHoles) {
  const Ino ino = create("a");
  write(ino, 2 * kTestBlock, std::string(kTestBlock, 'x'));
  write(ino, 5 * kTestBlock, std::string(100, 'x'));
  resize(ino, 8 * kTestBlock);
  for (int flushed = 0; flushed < 2; ++flushed) {
    EXPECT_EQ(*fs->seek(ino, 0, SEEK_DATA), 2 * kTestBlock);
    EXPECT_EQ(*fs->seek(ino, 0, SEEK_HOLE), 0u);
    EXPECT_EQ(*fs->seek(ino, 2 * kTestBlock + 5, SEEK_HOLE), 3 * kTestBlock);
    EXPECT_EQ(*fs->seek(ino, 3 * kTestBlock, SEEK_DATA), 5 * kTestBlock);
    EXPECT_EQ(*fs->seek(ino, 5 * kTestBlock, SEEK_HOLE), 5 * kTestBlock + 100);
    EXPECT_EQ(fs->seek(ino, 5 * kTestBlock + 100, SEEK_DATA).error(), ENXIO);
    EXPECT_EQ(fs->seek(ino, 8 * kTestBlock, SEEK_DATA).error(), ENXIO);
    sync(ino);
  }
}

// ---- names -------------------------------------------------------------------------------------

TEST_F(FileTest, NamesFollowPosix) {
  const Ino dir = create("dir", S_IFDIR | 02755);
  const Ino inner = create("inner", S_IFDIR | 0755, dir);
  EXPECT_TRUE((fs->getattr(inner)->st_mode & S_ISGID) != 0);
  EXPECT_EQ(fs->getattr(kRootIno)->st_nlink, 3u);
  EXPECT_EQ(fs->rmdir(kRootIno, "dir").error(), ENOTEMPTY);
  EXPECT_EQ(fs->unlink(kRootIno, "dir").error(), EISDIR);
  EXPECT_EQ(fs->lookup(kRootIno, std::string(256, 'n')).error(), ENAMETOOLONG);
  EXPECT_EQ(fs->getattr(99).error(), ESTALE);
  const Ino file = create("file");
  EXPECT_EQ(fs->rmdir(kRootIno, "file").error(), ENOTDIR);
  EXPECT_EQ(fs->lookup(file, "x").error(), ENOTDIR);
  EXPECT_EQ(fs->rename(kRootIno, "file", kRootIno, "dir", 0).error(), EISDIR);
  EXPECT_EQ(fs->rename(kRootIno, "dir", kRootIno, "file", 0).error(), ENOTDIR);
  EXPECT_EQ(fs->rename(kRootIno, "file", kRootIno, "dir", RENAME_NOREPLACE).error(), EEXIST);
  EXPECT_EQ(*fs->rename(dir, "inner", kRootIno, "moved", 0), std::vector{inner});
  EXPECT_EQ(fs->getattr(kRootIno)->st_nlink, 4u);
  EXPECT_EQ(fs->getattr(dir)->st_nlink, 2u);
  EXPECT_TRUE(fs->rename(kRootIno, "moved", kRootIno, "file", RENAME_EXCHANGE));
  remount();
  EXPECT_EQ(find("moved"), file);
  EXPECT_EQ(find("file"), inner);
  EXPECT_TRUE(fs->rename(kRootIno, "file", kRootIno, "dir", 0));
  EXPECT_EQ(find("dir"), inner);
  EXPECT_EQ(fs->getattr(kRootIno)->st_nlink, 3u);
  EXPECT_EQ(fs->status().inodes, 3u);
}

TEST_F(FileTest, MemoryIsBoundedHoweverManyFilesTheKernelRemembers) {
  unmount();
  options.own_ticker = false;
  options.commit_every = std::chrono::milliseconds(0);
  options.most_nodes = 50;
  options.cache.limit = 64u << 10;
  mount();
  std::vector<Ino> files;
  for (int i = 0; i < 1000; ++i) {
    files.push_back(create("f" + std::to_string(i)));
    write(files.back(), 0, "content " + std::to_string(i));
  }
  const Ino open = files.front(), unlinked = files.back();
  ASSERT_TRUE(fs->unlink(kRootIno, "f999"));
  fs->beat();  // flushes and commits
  fs->beat();  // what was flushed may go
  const FileSystemStatus status = fs->status();
  EXPECT_LE(status.cache_bytes, status.cache_limit);
  EXPECT_LT(status.nodes, 150u);  // those with cached blocks stay
  EXPECT_EQ(status.inodes, 1001u);
  for (int i = 0; i < 999; ++i)  // the kernel still uses their numbers
    ASSERT_EQ(read(files[static_cast<std::size_t>(i)]), "content " + std::to_string(i));
  EXPECT_EQ(read(unlinked), "content 999");
  EXPECT_EQ(fs->getattr(unlinked + 1).error(), ESTALE);
  resize(open, 3);
  fs->beat();
  EXPECT_EQ(read(open), "con");
  fs->forget(open, 1);
  EXPECT_EQ(fs->getattr(open).error(), ESTALE);
  EXPECT_EQ(find("f0"), open);
  for (const Ino ino : files) fs->forget(ino, 1);
  fs->beat();
  EXPECT_EQ(fs->status().inodes, 1000u);
}

TEST_F(FileTest, AVolumeWithoutLabelsSaysSoOnce) {
  const Ino a = create("a"), b = create("b");
  EXPECT_EQ(fs->get_xattr(a, "security.selinux").error(), EOPNOTSUPP);
  ASSERT_TRUE(fs->set_xattr(b, "security.selinux", "label", 0));
  EXPECT_EQ(fs->get_xattr(a, "security.selinux").error(), ENODATA);
  ASSERT_TRUE(fs->sync_all());
  remount();
  EXPECT_EQ(fs->get_xattr(find("a"), "security.selinux").error(), ENODATA);
  EXPECT_EQ(fs->get_xattr(find("b"), "security.selinux").value(), "label");
}

}  // namespace
}  // namespace s3oram
