// Tests full disks, devices that fail or are silent, and limits of memory and size.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/xattr.h>

#include <atomic>
#include <future>
#include <limits>
#include <thread>
#include <vector>

#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

class LimitsTest : public FileSystemFixture {};

/// Counts the threads that wait.
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

TEST_F(LimitsTest, WhatSomebodyWaitsForIsWrittenBeforeTheRest) {
  unmount();
  WatchedTiming timing;
  options.cache.timing = &timing;
  options.cache.in_flight = 1;
  options.cache.retry = std::chrono::hours(1);  // nobody wakes up without a reason
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
  for (int i = 0; i < 2; ++i) {  // the write under way, and the one that sync awaits
    ASSERT_TRUE(device->wait_held_writes(1));
    device->release_write();
  }
  syncing.join();  // while all other writes are held
  device->hold_writes(false);
  background.join();
  unmount();
}

// The same bound holds for small files, which share blocks.
TEST_F(LimitsTest, SmallFilesAreWrittenSoManyAtATime) {
  unmount();
  options.cache.in_flight = 1;
  options.cache.retry = std::chrono::hours(1);
  options.own_ticker = false;
  options.commit_every = std::chrono::milliseconds(0);
  mount();
  constexpr int kFiles = 12;
  const auto content = [](int i) {
    return pattern(kTestBlock / 2 - 100, static_cast<unsigned>(i));
  };
  for (int i = 0; i < kFiles; ++i) write(create(std::to_string(i)), 0, content(i));
  device->hold_writes(true);
  std::thread background([&] { fs->beat(); });
  for (int released = 0; released < kFiles / 2; ++released) {
    ASSERT_TRUE(device->wait_held_writes(1));
    ASSERT_EQ(device->counts().writes, released + 1u);
    device->release_write();
  }
  background.join();
  EXPECT_EQ(device->counts().writes, kFiles / 2u) << "two files share a block";
  device->hold_writes(false);
  for (int i = 0; i < kFiles; ++i) EXPECT_EQ(read(find(std::to_string(i))), content(i));
}

TEST_F(LimitsTest, NamesNeedNoServer) {
  unmount();
  options.most_uncommitted = 1 << 20;
  options.cache.deadline = std::chrono::milliseconds(300);
  mount();
  const Ino ino = create("a");
  write(ino, 0, pattern(kTestBlock));
  device->hold_writes(true);
  const std::string large(60'000, 'x');
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(fs->set_xattr(ino, "user." + std::to_string(i), large, 0)) << i;
  device->hold_writes(false);
}

TEST_F(LimitsTest, NamesOfAttributesNeverMakeALongerListThanTheKernelTakes) {
  constexpr std::size_t kFit = 65'536 / 256;
  const Ino ino = create("a");
  const auto set = [&](std::size_t number, int flags = 0) {
    std::string name = "user." + std::to_string(number);
    name.resize(255, 'n');
    return fs->set_xattr(ino, name, "v", flags);
  };
  const auto refused = [](const PosixStatus& status) {
    return !status && status.error() == ENOSPC;
  };
  for (std::size_t i = 0; i < kFit; ++i) ASSERT_TRUE(set(i)) << i;
  EXPECT_TRUE(refused(set(kFit)));
  EXPECT_TRUE(refused(fs->set_xattr(ino, "user.x", "v", 0)));
  remount();
  ASSERT_EQ(find("a"), ino);
  EXPECT_TRUE(refused(set(kFit)));
  EXPECT_TRUE(set(7, XATTR_REPLACE));
  const auto names = fs->list_xattrs(ino);
  ASSERT_TRUE(names);
  EXPECT_EQ(names->size(), kFit);
  ASSERT_TRUE(fs->remove_xattr(ino, names->front()));
  EXPECT_TRUE(set(kFit));
  EXPECT_TRUE(refused(set(kFit + 1)));
}

TEST_F(LimitsTest, FailedWritesStayDirtyAndAreTriedAgain) {
  remount_with_deadline(std::chrono::milliseconds(100));
  const Ino ino = create("a");
  write(ino, 0, "kept");
  device->fail_writes(true);
  const auto failed = fs->sync(ino);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error(), EIO);
  EXPECT_GT(fs->status().dirty_bytes, 0u);
  EXPECT_EQ(read(ino), "kept");
  EXPECT_FALSE(fs->sync(ino));  // a second call must fail, too
  device->fail_writes(false);
  sync(ino);
  EXPECT_EQ(fs->status().dirty_bytes, 0u);
  crash();
  mount();
  EXPECT_EQ(read(find("a")), "kept");
}

/// A clock that can leap to the end of each wait.
class LeapingTiming final : public Timing {
 public:
  Time now() override { return system_timing().now() + ahead_.load(); }
  std::int64_t wall_clock() override { return system_timing().wall_clock(); }
  void wait(Lock& lock, std::condition_variable& changed, Time until) override {
    if (!leaps_over_waits_) return system_timing().wait(lock, changed, until - ahead_.load());
    if (at_wait) at_wait();
    leap(until - now());
  }
  void leap(Time::duration time) { ahead_ = ahead_.load() + time; }
  void leap_over_waits(bool leaps) { leaps_over_waits_ = leaps; }
  std::function<void()> at_wait;  // called at each wait that is leapt over

 private:
  std::atomic<Time::duration> ahead_{Time::duration{}};
  std::atomic<bool> leaps_over_waits_ = false;
};

TEST_F(LimitsTest, ASilentDeviceGivesEioAtTheDeadline) {
  write(create("a"), 0, "x");
  remount_with_deadline(std::chrono::milliseconds(100));
  device->hold_reads(true);
  Bytes buffer(10);
  const auto silent = fs->read(find("a"), 0, buffer);
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error(), EIO);
  device->hold_reads(false);
  EXPECT_EQ(read(find("a")), "x");
  EXPECT_EQ(device->counts().reads, 1u);
}

// If the kernel's read-ahead fails, it immediately asks again, for the page that its user wants.
TEST_F(LimitsTest, AReadAfterAFailedOneWaitsForAMomentAndALaterOneForTheDeadline) {
  write(create("a"), 0, "x");
  unmount();
  LeapingTiming timing;
  options.cache.timing = &timing;
  options.own_ticker = false;
  mount();
  const Ino ino = find("a");
  device->hold_reads(true);
  const auto time_to_fail = [&] {
    const auto start = timing.now();
    Bytes buffer(10);
    EXPECT_FALSE(fs->read(ino, 0, buffer));
    return std::chrono::round<std::chrono::seconds>(timing.now() - start).count();
  };
  timing.leap_over_waits(true);
  EXPECT_EQ(time_to_fail(), 20);
  EXPECT_EQ(time_to_fail(), 2);
  timing.leap(std::chrono::seconds(10));
  EXPECT_EQ(time_to_fail(), 20);
  EXPECT_EQ(time_to_fail(), 2);
  timing.leap_over_waits(false);
  device->hold_reads(false);
  EXPECT_EQ(read(ino), "x");
  EXPECT_EQ(device->counts().reads, 1u);
  unmount();
}

/// Calls `work`, which must fail with EIO, and returns how many seconds that took.
template <class Work>
std::int64_t seconds_to_fail(Timing& timing, Work work) {
  const auto start = timing.now();
  const auto outcome = work();
  EXPECT_EQ(outcome ? 0 : outcome.error(), EIO);
  return std::chrono::round<std::chrono::seconds>(timing.now() - start).count();
}

// The device was asked when the data was read ahead, but no program has waited for it since then.
TEST_F(LimitsTest, AReadOfWhatIsReadAheadWaitsForTheDeadline) {
  write(create("a"), 0, pattern(16 * kTestBlock));
  unmount();
  LeapingTiming timing;
  options.cache.timing = &timing;
  options.cache.retry = std::chrono::seconds(1);
  options.own_ticker = false;
  mount();
  const Ino ino = find("a");
  const auto time_to_fail = [&](std::uint64_t block) {
    Bytes buffer(10);
    return seconds_to_fail(timing, [&] { return fs->read(ino, block * kTestBlock, buffer); });
  };
  read(ino, 0, kTestBlock);
  device->hold_reads(true);
  timing.leap_over_waits(true);
  EXPECT_EQ(time_to_fail(1), 20);
  ASSERT_TRUE(device->wait_held_reads(3)) << "nothing is read ahead";
  EXPECT_EQ(time_to_fail(2), 20);
  EXPECT_EQ(time_to_fail(2), 2);
  EXPECT_EQ(time_to_fail(1), 20) << "the moment after its error is over";
  timing.leap_over_waits(false);
  device->hold_reads(false);
  EXPECT_EQ(read(ino), pattern(16 * kTestBlock));
  unmount();
}

// An access has several steps. On busy disks each may take some seconds, and then no access ends
// before the deadline, although every server works.
TEST_F(LimitsTest, AStepOfAnAccessIsProgress) {
  write(create("a"), 0, "x");
  unmount();
  LeapingTiming timing;
  options.cache.timing = &timing;
  options.cache.retry = std::chrono::seconds(1);
  options.own_ticker = false;
  mount();
  const Ino ino = find("a"), other = create("b");
  const auto slow_for_a_minute = [&] {
    timing.at_wait = [&, steps = 4, next = timing.now() + std::chrono::seconds(15)]() mutable {
      if (steps == 0 || timing.now() < next) return;
      device->step();
      --steps;
      next = timing.now() + std::chrono::seconds(15);
    };
  };
  const auto read_it = [&] {
    Bytes buffer(10);
    return fs->read(ino, 0, buffer);
  };
  timing.leap_over_waits(true);
  device->hold_reads(true);
  slow_for_a_minute();
  EXPECT_NEAR(seconds_to_fail(timing, read_it), 82, 4);
  EXPECT_EQ(seconds_to_fail(timing, read_it), 2) << "nothing has happened since then";
  write(other, 0, "y");
  device->hold_writes(true);
  slow_for_a_minute();
  EXPECT_NEAR(seconds_to_fail(timing, [&] { return fs->sync(other); }), 82, 4);
  EXPECT_EQ(seconds_to_fail(timing, [&] { return fs->sync(other); }), 20);
  timing.leap_over_waits(false);
  device->hold_writes(false);
  device->hold_reads(false);
  EXPECT_EQ(read(ino), "x");
  unmount();
}

// Commits succeed without any server, and must not extend the deadline of a caller who waits for
// one.
TEST_F(LimitsTest, CommitsAreNoProgressOfASilentDevice) {
  remount_with_deadline(std::chrono::milliseconds(200));
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

TEST_F(LimitsTest, NorIsReadingWhatIsInMemory) {
  constexpr int kFiles = 200;  // small: they share blocks
  for (int i = 0; i < kFiles; ++i) write(create(std::to_string(i)), 0, "x");
  ASSERT_TRUE(fs->sync_all());
  remount_with_deadline(std::chrono::milliseconds(200));
  EXPECT_EQ(read(find("0")), "x");
  const Ino ino = create("a");
  write(ino, 0, "x");
  device->hold_writes(true);
  auto synced = std::async(std::launch::async, [&] { return fs->sync(ino); });
  int i = 1;
  while (i < kFiles && synced.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready)
    EXPECT_EQ(read(find(std::to_string(i++))), "x");
  EXPECT_LT(i, kFiles);
  device->hold_writes(false);
  const auto outcome = synced.get();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error(), EIO);
  sync(ino);
}

TEST_F(LimitsTest, AFailedReadIsNotRemembered) {
  write(create("a"), 0, "x");
  remount();
  device->fail_reads(true);
  Bytes buffer(10);
  EXPECT_EQ(fs->read(find("a"), 0, buffer).error(), EIO);
  device->fail_reads(false);
  EXPECT_EQ(read(find("a")), "x");
}

TEST_F(LimitsTest, DirtyDataIsBounded) {
  const Ino ino = create("a");
  const std::size_t most = options.cache.limit / 2 + kTestBlock;
  for (std::uint64_t i = 0; i < 2048; ++i) {
    write(ino, i * kTestBlock, std::string(kTestBlock, 'x'));
    ASSERT_LE(fs->status().dirty_bytes, most);
    ASSERT_LE(fs->status().cache_bytes, options.cache.limit + kTestBlock);
  }
}

TEST_F(LimitsTest, AttributesThatWaitForACommitAreBoundedToo) {
  unmount();
  options.most_uncommitted = 1 << 20;
  mount();
  const Ino ino = create("a");
  const std::string large(60'000, 'x');
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(fs->set_xattr(ino, "user." + std::to_string(i), large, 0));
    // 18 attributes and up to 3 rows of the file, and as many again in a commit under way.
    ASSERT_LE(fs->status().uncommitted_rows, 2 * (18 + 3u));
  }
  // A value that replaces another does not count twice.
  const auto commits = device->counts().commits;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(fs->set_xattr(ino, "user.0", large, 0));
  EXPECT_LE(device->counts().commits, commits + 1);
}

TEST_F(LimitsTest, AFullDiskIsSaidBeforeDataIsTaken) {
  unmount();
  std::uint64_t room = 0;
  options.cache.free_bytes = [&] { return room; };
  mount();
  const Ino ino = create("a");
  EXPECT_EQ(fs->write(ino, 0, as_bytes("x"), false).error(), ENOSPC);
  EXPECT_EQ(fs->getattr(ino)->st_size, 0);
  EXPECT_TRUE(device->take_looked_for_room())
      << "nothing else would notice that there is room again";
  room = 1u << 30;
  write(ino, 0, "x");
  EXPECT_FALSE(device->take_looked_for_room());
}

TEST_F(LimitsTest, WhatIsWrittenInPlaceNeedsNoRoom) {
  unmount();
  std::uint64_t room = 1u << 30;
  options.cache.free_bytes = [&] { return room; };
  mount();
  const Ino ino = create("a");
  const std::string first = pattern(64 * kTestBlock), second = pattern(64 * kTestBlock, 2);
  write(ino, 0, first);
  sync(ino);
  room = 20 * kTestBlock;
  write(ino, 0, second);
  EXPECT_TRUE(fs->write(create("b"), 0, as_bytes(pattern(kTestBlock)), false))
      << "only new blocks take room";
  EXPECT_EQ(fs->write(create("c"), 0, as_bytes(pattern(8 * kTestBlock)), false).error(), ENOSPC);
}

// The replaced content makes room for the new one.
TEST_F(LimitsTest, OnAFullDeviceAFileIsReplaced) {
  for (const bool itself : {true, false}) {
    unmount();
    options.cache.free_bytes = [&, more = 120 + 120 * !itself] {
      const std::uint64_t mapped = device->mapped().size();
      return (more - std::min<std::uint64_t>(mapped, more)) * kTestBlock;
    };
    mount();
    const Ino old = create(itself ? "a" : "b");
    write(old, 0, pattern(100 * kTestBlock));
    sync(old);
    resize(old, 0);
    const Ino ino = itself ? old : create("c");
    const std::string next = pattern(100 * kTestBlock, 2);
    for (std::uint64_t at = 0; at < next.size(); at += kTestBlock)
      ASSERT_TRUE(fs->write(ino, at, as_bytes(next.substr(at, kTestBlock)), false)) << at;
    fs->closed(ino);
    EXPECT_TRUE(fs->closing(ino));
    sync(ino);
    remount();
    EXPECT_TRUE(read(find(itself ? "a" : "c")) == next);
  }
}

// The same holds for data from the page cache, which has been accepted by the time its failure
// shows. Then everything in flight is tried again, however long it took.
TEST_F(LimitsTest, OnAFullDeviceAFileIsReplacedFromThePageCache) {
  unmount();
  options.cache.retry = std::chrono::milliseconds(0);
  mount();
  const Ino ino = create("a");
  write(ino, 0, pattern(100 * kTestBlock));
  sync(ino);
  device->fill_up(true);
  const std::string next = pattern(100 * kTestBlock, 2);
  resize(ino, 0);
  ASSERT_TRUE(fs->write(ino, 0, as_bytes(next), true));
  sync(ino);
  remount();
  EXPECT_TRUE(read(find("a")) == next);
}

// After the first failure the device looks for room again, so only the second failure counts.
TEST_F(LimitsTest, WhatFindsNoRoomIsTriedOnceMore) {
  unmount();
  options.cache.retry = std::chrono::milliseconds(0);
  mount();
  for (const bool found : {true, false}) {
    const Ino ino = create(found ? "a" : "b");
    device->fill_up(true);
    device->hold_writes(true);
    ASSERT_TRUE(fs->write(ino, 0, as_bytes(pattern(kTestBlock)), true));
    auto synced = std::async(std::launch::async, [&] { return fs->sync(ino); });
    ASSERT_TRUE(device->wait_held_writes(1));
    device->release_write();
    ASSERT_TRUE(device->wait_held_writes(1)) << "it is tried again";
    device->fill_up(!found);
    device->hold_writes(false);
    const auto outcome = synced.get();
    EXPECT_EQ(outcome ? 0 : outcome.error(), found ? 0 : ENOSPC);
    device->fill_up(false);
  }
}

TEST_F(LimitsTest, OnceThereIsRoomAgainNothingIsHeldBack) {
  unmount();
  std::uint64_t room = 0;
  options.cache.free_bytes = [&] { return room; };
  mount();
  device->hold_writes(true);
  const Ino ino = create("a");
  ASSERT_TRUE(fs->write(ino, 0, as_bytes("x"), true));
  EXPECT_EQ(fs->closing(ino).error(), ENOSPC);
  room = 1u << 30;
  EXPECT_TRUE(fs->closing(ino)) << "it is still under way, but not because room is lacking";
  device->hold_writes(false);
}

TEST_F(LimitsTest, FreeIsWhatEveryDiskHasRoomFor) {
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
  servers = 1u << 18;
  EXPECT_EQ(free_bytes(), servers - 16 * kTestBlock) << "a little is left free, as on ext4";
  EXPECT_EQ(fs->statfs()->f_bfree * kTestBlock, servers);
  database = 0;
  EXPECT_EQ(free_bytes(), 0u);
}

// If it were, df would promise room that no write can have.
TEST_F(LimitsTest, WhatIsNotWrittenYetIsNotFree) {
  unmount();
  options.cache.free_bytes = [&] {
    return (100 - std::uint64_t{device->mapped().size()}) * kTestBlock;
  };
  mount();
  const auto before = *fs->statfs();
  device->hold_writes(true);
  const Ino whole = create("whole");
  write(whole, 0, pattern(30 * kTestBlock));
  const Ino part = create("not whole");
  write(part, 0, pattern(3 * kTestBlock / 4));
  const auto held = *fs->statfs();
  EXPECT_EQ(held.f_bavail + 31, before.f_bavail);
  EXPECT_EQ(held.f_blocks, before.f_blocks);
  ASSERT_TRUE(fs->unlink(kRootIno, "not whole"));
  fs->forget(part, 1);
  EXPECT_EQ(fs->statfs()->f_bavail + 30, before.f_bavail)
      << "blocks that were never written are free immediately";
  write(create("last"), 0, pattern(54 * kTestBlock));
  EXPECT_EQ(fs->statfs()->f_bavail, 0u);
  EXPECT_EQ(fs->write(create("more"), 0, as_bytes("x"), false).error(), ENOSPC);
  device->hold_writes(false);
  ASSERT_TRUE(fs->sync_all());
  EXPECT_EQ(fs->statfs()->f_bavail, 0u);
  EXPECT_EQ(fs->statfs()->f_blocks, before.f_blocks);
  const auto used = [&] { return fs->statfs()->f_blocks - fs->statfs()->f_bfree; };
  const auto with_all = used();
  ASSERT_TRUE(fs->unlink(kRootIno, "whole"));
  fs->forget(whole, 1);
  EXPECT_EQ(used() + 30, with_all) << "not only after the next commit";
}

TEST_F(LimitsTest, WhatCannotHaveRoomIsNotAllocated) {
  unmount();
  std::uint64_t room = 26 * kTestBlock;
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
  room = 18 * kTestBlock;
  EXPECT_TRUE(fs->fallocate(ino, 0, 0, 10 * kTestBlock)) << "most of it is there";
  EXPECT_EQ(fs->fallocate(ino, 0, 0, 10 * kTestBlock + 1).error(), ENOSPC);
  EXPECT_EQ(fs->fallocate(ino, 0, 8 * kTestBlock, 8 * kTestBlock).error(), ENOSPC)
      << "the file's other blocks do not count as room";
  EXPECT_TRUE(fs->fallocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1ull << 44));
}

// The kernel accepts any offset before it asks, and a failure comes too late.
TEST_F(LimitsTest, FilesEndWhereAllNumbersDo) {
  constexpr std::uint64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const Ino ino = create("a");
  write(ino, 0, "start");
  write(ino, kEnd - 5000, std::string(4999, 'y') + 'z');
  EXPECT_EQ(fs->write(ino, kEnd, as_bytes("x"), false).error(), EFBIG);
  EXPECT_EQ(fs->write(ino, kEnd - 1, as_bytes("xx"), false).error(), EFBIG);
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

// An error would lose the data, and the fsync after the one that reports the error would succeed.
TEST_F(LimitsTest, AFullDiskDoesNotLoseWhatTheKernelHasTaken) {
  unmount();
  std::uint64_t room = 0;
  options.cache.free_bytes = [&] { return room; };
  mount();
  const Ino ino = create("a");
  ASSERT_TRUE(fs->write(ino, 0, as_bytes("kept"), true));
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

TEST_F(LimitsTest, MemoryIsBoundedHoweverManyFilesTheKernelRemembers) {
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
  fs->beat();  // what was flushed may leave memory
  const FileSystemStatus status = fs->status();
  EXPECT_LE(status.cache_bytes, status.cache_limit);
  EXPECT_LT(status.nodes, 150u);  // inodes with cached blocks stay
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

TEST_F(LimitsTest, AVolumeWithoutLabelsSaysSoOnce) {
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
