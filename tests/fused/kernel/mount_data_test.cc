// Tests the content of files, through the kernel.
#include <linux/falloc.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include <functional>
#include <future>
#include <limits>
#include <sstream>
#include <vector>

#include "tests/fused/kernel/mount_fixture.h"

namespace s3oram {
namespace {

/// Runs `work` in a forked process and returns its result. Needed for mappings: a page fault on the
/// test's own mount would hold the address space that the file system's threads need to answer it.
int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Writes until the kernel takes no more. Returns the number of bytes written.
std::size_t write_what_goes(int file, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t some = ::write(file, text.data() + written, text.size() - written);
    if (some <= 0) break;
    written += static_cast<std::size_t>(some);
  }
  return written;
}

TEST_F(MountTest, FilesKeepTheirContent) {
  const std::string text = pattern(3'000'000);
  put(root / "big", text);
  put(root / "small", "x");
  EXPECT_EQ(content(root / "big"), text);
  {
    const OpenFile file(root / "big", O_WRONLY | O_APPEND);
    ASSERT_EQ(::write(file, "end", 3), 3);
    ASSERT_EQ(::fsync(file), 0);
  }
  remount_kernel();
  EXPECT_EQ(content(root / "big"), text + "end");
  EXPECT_EQ(content(root / "small"), "x");
  EXPECT_EQ(info(root / "small").st_blocks, 1);
  put(root / "big", "short");
  EXPECT_EQ(content(root / "big"), "short");
}

TEST_F(MountTest, AnOrdinaryUnmountLosesNothing) {
  put(root / "a", pattern(100'000));
  ASSERT_EQ(::umount2(root.c_str(), 0), 0) << std::strerror(errno);
  runner.join();
  kernel.reset();
  remount();
  mount_kernel();
  EXPECT_EQ(content(root / "a"), pattern(100'000));
}

TEST_F(MountTest, NorDoesOneThatIsLazy) {
  const OpenFile file(root / "a", O_WRONLY | O_CREAT);
  ASSERT_EQ(::write(file, "still open", 10), 10);
  ASSERT_EQ(::umount2(root.c_str(), MNT_DETACH), 0) << std::strerror(errno);
  unmount_kernel();  // as SIGTERM does
  remount();
  mount_kernel();
  EXPECT_EQ(content(root / "a"), "still open");
}

TEST_F(MountTest, TruncateSparseAndHoles) {
  const OpenFile file(root / "a", O_RDWR | O_CREAT);
  ASSERT_EQ(::pwrite(file, "x", 1, 100 * kTestBlock), 1);
  EXPECT_EQ(info(root / "a").st_blocks, 1);
  ASSERT_EQ(::fsync(file), 0);
  EXPECT_EQ(info(root / "a").st_size, 100 * kTestBlock + 1);
  EXPECT_EQ(info(root / "a").st_blocks, 1);  // the kernel was told immediately
  EXPECT_EQ(::lseek(file, 0, SEEK_DATA), 100 * kTestBlock);
  EXPECT_EQ(::lseek(file, 0, SEEK_HOLE), 0);
  EXPECT_EQ(::ftruncate(file, 5), 0);
  EXPECT_EQ(::ftruncate(file, 2 * kTestBlock), 0);
  EXPECT_EQ(content(root / "a"), std::string(2 * kTestBlock, '\0'));
  const off_t huge = off_t{16} << 40;
  ASSERT_EQ(::pwrite(file, "end", 3, huge), 3);
  ASSERT_EQ(::fsync(file), 0);
  char back[3];
  ASSERT_EQ(::pread(file, back, 3, huge), 3);
  EXPECT_EQ(std::string(back, 3), "end");
}

TEST_F(MountTest, SeekSeesWhatIsStillInTheKernelsCache) {
  const OpenFile file(root / "a", O_RDWR | O_CREAT);
  ASSERT_EQ(::pwrite(file, "x", 1, 10 * kTestBlock), 1);
  EXPECT_EQ(::lseek(file, 0, SEEK_DATA), 10 * kTestBlock);
  EXPECT_EQ(::lseek(file, 10 * kTestBlock, SEEK_HOLE), 10 * kTestBlock + 1);
}

// tar -S reads nothing from a file that takes no room.
TEST_F(MountTest, WhatIsStillInTheKernelsCacheTakesRoom) {
  put(root / "there", "");
  EXPECT_EQ(info(root / "there").st_blocks, 0);
  for (const char* name : {"new", "there"}) {
    {
      const OpenFile file(root / name, O_WRONLY | O_CREAT);
      ASSERT_EQ(::write(file, "data", 4), 4);
      EXPECT_GT(info(root / name).st_blocks, 0) << name;
      EXPECT_EQ(info(root / name).st_size, 4);
    }
    EXPECT_EQ(info(root / name).st_blocks, 1) << name;
  }
  const OpenFile emptied(root / "new", O_WRONLY | O_TRUNC);
  EXPECT_EQ(info(root / "new").st_blocks, 0);
  ASSERT_EQ(::write(emptied, "other", 5), 5);
  EXPECT_GT(info(root / "new").st_blocks, 0);
}

TEST_F(MountTest, ARenameOverAFileBringsWhatIsStillInTheKernelsCache) {
  const std::string fresh = pattern(10 * kTestBlock), other = pattern(3 * kTestBlock, 2);
  for (const char* name : {"a", "b"}) put(root / name, "old");
  ASSERT_TRUE(fs->sync_all());
  const OpenFile renamed(root / "new", O_RDWR | O_CREAT), exchanged(root / "c", O_RDWR | O_CREAT);
  ASSERT_EQ(::write(renamed, fresh.data(), fresh.size()), ssize_t(fresh.size()));
  ASSERT_EQ(::write(exchanged, other.data(), other.size()), ssize_t(other.size()));
  stdfs::rename(root / "new", root / "a");
  ASSERT_EQ(
      ::renameat2(AT_FDCWD, (root / "b").c_str(), AT_FDCWD, (root / "c").c_str(), RENAME_EXCHANGE),
      0);
  ASSERT_TRUE(fs->sync_names());
  crash_kernel();
  mount();
  EXPECT_EQ(read(find("a")), fresh);
  EXPECT_EQ(read(find("b")), other);
  EXPECT_EQ(read(find("c")), "old");
}

// If it were shown, programs would see data that is gone after the next mount.
TEST_F(MountTest, WhatCouldNotBeTakenIsNotShown) {
  const std::string text = pattern(3 * options.cache.limit);
  std::size_t written = 0;
  device->fill_up(true);
  {
    const OpenFile file(root / "a", O_WRONLY | O_CREAT);
    written = write_what_goes(file, text);
    ASSERT_EQ(::fsync(file), -1);
    EXPECT_EQ(errno, ENOSPC);
  }
  device->fill_up(false);
  const auto synced = [&] {
    const OpenFile file(root / "a", O_RDONLY);
    return ::fsync(file) == 0;
  };
  while (!synced()) std::this_thread::yield();
  const std::string seen = content(root / "a");
  ASSERT_EQ(seen.size(), written);
  std::size_t taken = 0, holes = 0;
  for (std::size_t at = 0; at + kTestBlock <= written; at += kTestBlock) {
    const std::string block = seen.substr(at, kTestBlock);
    taken += block == text.substr(at, kTestBlock);
    holes += block == std::string(kTestBlock, '\0');
  }
  EXPECT_GT(taken, 0u);
  EXPECT_GT(holes, 0u) << "everything was accepted";
  EXPECT_EQ(taken + holes, written / kTestBlock);
  const auto size = info(root / "a").st_size;
  remount_kernel();
  EXPECT_EQ(info(root / "a").st_size, size);
  EXPECT_TRUE(content(root / "a") == seen);
}

// The file would have holes where the kernel gave up data that it could not write back, and its
// writer was not told.
TEST_F(MountTest, ARenameInstallsNothingOfWhichTheKernelHasLostAPart) {
  put(root / "a", "old");
  unmount_kernel();
  remount_with_deadline(std::chrono::milliseconds(100));
  mount_kernel();
  const OpenFile file(root / "new", O_RDWR | O_CREAT), other(root / "new", O_RDONLY);
  const std::string text = pattern(3 * options.cache.limit);
  device->hold_writes(true);
  write_what_goes(file, text);
  ::sync_file_range(other, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  device->hold_writes(false);
  EXPECT_EQ(::rename((root / "new").c_str(), (root / "a").c_str()), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(content(root / "a"), "old");
  EXPECT_EQ(::fsync(file), -1);  // now the writer knows, so the rename may succeed
  const auto installed = [&] {   // on a busy machine the deadline may pass once more
    return ::pwrite(file, text.data(), text.size(), 0) == ssize_t(text.size()) &&
           ::fsync(file) == 0 && ::rename((root / "new").c_str(), (root / "a").c_str()) == 0;
  };
  while (!installed()) std::this_thread::yield();
  EXPECT_TRUE(content(root / "a") == text);
}

TEST_F(MountTest, TheUnmountTellsOfWhatIsLostByItAlone) {
  std::ostringstream log;
  const auto former = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const std::string warning = "could not be written back";
  const auto write_too_much = [&](const char* name) {
    const OpenFile file(root / name, O_WRONLY | O_CREAT);
    write_what_goes(file, pattern(3 * options.cache.limit));
    EXPECT_EQ(::fsync(file), -1);
  };
  device->fill_up(true);
  write_too_much("a");
  device->fill_up(false);
  unmount_kernel();
  EXPECT_EQ(log.str().find(warning), std::string::npos) << log.str();

  remount_with_deadline(std::chrono::milliseconds(100));
  mount_kernel();
  device->hold_writes(true);
  write_too_much("b");
  const OpenFile file(root / "c", O_WRONLY | O_CREAT);
  EXPECT_EQ(::write(file, "lost", 4), 4);
  unmount_kernel();
  device->hold_writes(false);
  EXPECT_NE(log.str().find(warning), std::string::npos) << log.str();
  spdlog::set_default_logger(former);
}

TEST_F(MountTest, Fallocate) {
  put(root / "a", std::string(4 * kTestBlock, 'x'));
  const OpenFile file(root / "a", O_RDWR);
  ASSERT_EQ(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 2 * kTestBlock), 0);
  std::string expected(4 * kTestBlock, 'x');
  expected.replace(100, 2 * kTestBlock, 2 * kTestBlock, '\0');
  EXPECT_EQ(content(root / "a"), expected);
  ASSERT_EQ(::fallocate(file, FALLOC_FL_ZERO_RANGE, 3 * kTestBlock, 2 * kTestBlock), 0);
  expected.resize(3 * kTestBlock);
  expected.resize(5 * kTestBlock);
  EXPECT_EQ(content(root / "a"), expected);
  ASSERT_EQ(::fallocate(file, 0, 0, 6 * kTestBlock), 0);
  EXPECT_EQ(info(root / "a").st_size, 6 * kTestBlock);
  ASSERT_EQ(::fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 9 * kTestBlock), 0);
  EXPECT_EQ(info(root / "a").st_size, 6 * kTestBlock);
}

TEST_F(MountTest, MappedWritesAndDirectIo) {
  const std::size_t size = 10 * kTestBlock;
  put(root / "a", std::string(size, '.'));
  EXPECT_EQ(in_child([&] {
              const int file = ::open((root / "a").c_str(), O_RDWR);
              void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
              if (mapped == MAP_FAILED) return 1;
              static_cast<char*>(mapped)[5 * kTestBlock] = '!';
              if (::msync(mapped, size, MS_SYNC) != 0) return 2;
              static_cast<char*>(mapped)[7 * kTestBlock] = '?';
              return ::munmap(mapped, size) == 0 ? 0 : 3;
            }),
            0);
  std::string expected(size, '.');
  expected[5 * kTestBlock] = '!';
  expected[7 * kTestBlock] = '?';
  EXPECT_EQ(content(root / "a"), expected);
  {
    const OpenFile file(root / "a", O_RDWR | O_DIRECT);
    alignas(4096) static char buffer[kTestBlock];
    std::fill(std::begin(buffer), std::end(buffer), 'd');
    ASSERT_EQ(::pwrite(file, buffer, kTestBlock, 0), ssize_t{kTestBlock});
  }
  expected.replace(0, kTestBlock, kTestBlock, 'd');
  remount_kernel();
  EXPECT_EQ(content(root / "a"), expected);
}

TEST_F(MountTest, ProcessesShareLocksAndMaps) {
  constexpr unsigned kProcesses = 4, kRounds = 300;
  constexpr off_t kFar = 3 * kTestBlock;
  put(root / "counter", std::string(4 * kTestBlock, '\0'));
  // Half of the processes count in a map, the others by reading and writing.
  const auto count = [&](bool maps) {
    const int file = ::open((root / "counter").c_str(), O_RDWR);
    void* mapped = ::mmap(nullptr, 4 * kTestBlock, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) return 1;
    auto* number = reinterpret_cast<unsigned*>(static_cast<char*>(mapped) + kFar);
    struct flock lock {};
    for (unsigned i = 0; i < kRounds; ++i) {
      lock.l_type = F_WRLCK;
      if (::fcntl(file, F_SETLKW, &lock) != 0) return 2;
      unsigned read = 0;
      if (maps)
        ++*number;
      else if (::pread(file, &read, sizeof read, kFar) != sizeof read || ++read == 0 ||
               ::pwrite(file, &read, sizeof read, kFar) != sizeof read)
        return 3;
      if (i % 50 == 0 && ::fsync(file) != 0) return 4;
      lock.l_type = F_UNLCK;
      if (::fcntl(file, F_SETLK, &lock) != 0) return 5;
    }
    return 0;
  };
  std::vector<std::future<int>> processes;
  for (unsigned i = 0; i < kProcesses; ++i)
    processes.push_back(std::async(std::launch::async, [&, maps = i % 2 == 0] {
      return in_child([&] { return count(maps); });
    }));
  for (auto& process : processes) EXPECT_EQ(process.get(), 0);
  remount_kernel();
  unsigned counted = 0;
  std::memcpy(&counted, content(root / "counter").data() + kFar, sizeof counted);
  EXPECT_EQ(counted, kProcesses * kRounds);
}

TEST_F(MountTest, UnlinkedFilesWorkUntilTheyAreClosed) {
  {
    const OpenFile file(root / "a", O_RDWR | O_CREAT);
    const std::string text = pattern(50'000);
    ASSERT_EQ(::write(file, text.data(), text.size()), ssize_t(text.size()));
    ASSERT_EQ(::fsync(file), 0);
    ASSERT_EQ(::unlink((root / "a").c_str()), 0);
    std::string back(text.size(), '\0');
    ASSERT_EQ(::pread(file, back.data(), back.size(), 0), ssize_t(back.size()));
    EXPECT_EQ(back, text);
    ASSERT_EQ(::pwrite(file, "more", 4, 0), 4);
    struct stat now {};
    ASSERT_EQ(::fstat(file, &now), 0);
    EXPECT_EQ(now.st_nlink, 0u);
  }
  remount_kernel();
  EXPECT_EQ(fs->status().inodes, 1u);
  EXPECT_TRUE(stdfs::is_empty(root));
}

TEST_F(MountTest, EveryOffsetThatTheKernelTakesCanBeWritten) {
  constexpr off_t kLast = std::numeric_limits<off_t>::max() - 1;
  {
    const OpenFile file(root / "far", O_RDWR | O_CREAT);
    ASSERT_EQ(::pwrite(file, "start", 5, 0), 5);
    ASSERT_EQ(::pwrite(file, "z", 1, kLast), 1);
    ASSERT_EQ(::fsync(file), 0) << std::strerror(errno);
  }
  remount_kernel();
  const OpenFile file(root / "far", O_RDONLY);
  EXPECT_EQ(info(root / "far").st_size, kLast + 1);
  char bytes[8] = {};
  EXPECT_EQ(::pread(file, bytes, 2, kLast - 1), 2);
  EXPECT_EQ(bytes[1], 'z');
  EXPECT_EQ(::pread(file, bytes, 8, 0), 8);
  EXPECT_EQ(std::string(bytes, 8), std::string("start\0\0\0", 8));
}

TEST_F(MountTest, ManyMaySeekAtATime) {
  std::vector<std::future<int>> failures;
  for (int i = 0; i < 100; ++i)
    failures.push_back(std::async(std::launch::async, [this, i] {
      const OpenFile file(root / std::to_string(i), O_RDWR | O_CREAT);
      int failed = 0;
      for (int round = 0; round < 5; ++round)
        failed += ::pwrite(file, "x", 1, round * 8 * kTestBlock) != 1 ||
                  ::lseek(file, round * 8 * kTestBlock, SEEK_DATA) != round * 8 * kTestBlock;
      return failed;
    }));
  for (auto& failed : failures) EXPECT_EQ(failed.get(), 0);
}

TEST_F(MountTest, StatfsIsHonest) {
  struct statvfs before {
  }, after{};
  ASSERT_EQ(::statvfs(root.c_str(), &before), 0);
  EXPECT_EQ(before.f_frsize, kTestBlock);
  EXPECT_EQ(before.f_namemax, 255u);
  EXPECT_EQ(before.f_blocks, before.f_bfree);
  const OpenFile file(root / "a", O_RDWR | O_CREAT);
  ASSERT_EQ(::pwrite(file, pattern(10 * kTestBlock).data(), 10 * kTestBlock, 0),
            ssize_t{10 * kTestBlock});
  ASSERT_EQ(::fsync(file), 0);
  ASSERT_EQ(::statvfs(root.c_str(), &after), 0);
  EXPECT_EQ(after.f_blocks - after.f_bfree, 10u);
  EXPECT_EQ(after.f_files - after.f_ffree, 2u);
}

}  // namespace
}  // namespace s3oram
