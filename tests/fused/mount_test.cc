// All operations through the kernel, on a real mount in this process.
#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include "fused/fuse_loop.h"
#include "fused/fuse_mount.h"
#include "tests/fused/fixture.h"

namespace s3oram {
namespace {

namespace stdfs = std::filesystem;

/// A file descriptor that closes itself.
class File {
 public:
  File(const stdfs::path& path, int flags) : fd_(::open(path.c_str(), flags, 0644)) {
    EXPECT_GE(fd_, 0) << path << ": " << std::strerror(errno);
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

std::string content(const stdfs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const stdfs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  EXPECT_TRUE(out) << path;
}
struct stat info(const stdfs::path& path) {
  struct stat out {};
  EXPECT_EQ(::lstat(path.c_str(), &out), 0) << path << ": " << std::strerror(errno);
  return out;
}

/// Runs `work` in a forked process and gives what it returns. For mappings: a page fault on our own
/// mount would hold the address space that the file system's threads need to answer it.
int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class MountTest : public FileSystemFixture {
 protected:
  void SetUp() override {
    root = folder.path() / "mnt";
    stdfs::create_directory(root);
    options.cache.timing = &fuse_timing();

    FileSystemFixture::SetUp();
    mount_kernel();
  }
  void TearDown() override {
    unmount_kernel();
    FileSystemFixture::TearDown();
  }
  void mount_kernel(std::vector<std::string> words = {}) {
    auto mounted = FuseMount::create(*fs, {root.string(), "test,vault", std::move(words)});
    ASSERT_TRUE(mounted) << mounted.error().message;
    kernel = std::move(*mounted);
    runner = std::thread([this] { EXPECT_TRUE(kernel->run(::dup(cpu_latency.get()))); });
  }
  void unmount_kernel() {
    if (!kernel) return;
    kernel->stop();
    runner.join();
    kernel.reset();
  }
  void remount_kernel() {
    unmount_kernel();
    remount();
    mount_kernel();
  }

  const Descriptor cpu_latency{::memfd_create("latency", 0)};  // in place of the machine's
  stdfs::path root;
  std::unique_ptr<FuseMount> kernel;
  std::thread runner;
};

TEST_F(MountTest, FilesKeepTheirContent) {
  const std::string text = pattern(3'000'000);
  put(root / "big", text);
  put(root / "small", "x");
  EXPECT_EQ(content(root / "big"), text);
  {
    const File file(root / "big", O_WRONLY | O_APPEND);
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

TEST_F(MountTest, RenameInAllItsForms) {
  put(root / "a", "a");
  put(root / "b", "b");
  stdfs::create_directories(root / "d/e");
  const auto rename2 = [&](const char* from, const char* to, unsigned flags) {
    return ::renameat2(AT_FDCWD, (root / from).c_str(), AT_FDCWD, (root / to).c_str(), flags) == 0
               ? 0
               : errno;
  };
  EXPECT_EQ(rename2("a", "b", RENAME_NOREPLACE), EEXIST);
  EXPECT_EQ(rename2("a", "b", RENAME_EXCHANGE), 0);
  EXPECT_EQ(content(root / "a"), "b");
  EXPECT_EQ(rename2("a", "b", 0), 0);
  EXPECT_EQ(content(root / "b"), "b");
  EXPECT_FALSE(stdfs::exists(root / "a"));
  EXPECT_EQ(rename2("d", "d/e/f", 0), EINVAL);
  EXPECT_EQ(rename2("b", "d", 0), EISDIR);
  EXPECT_EQ(rename2("d/e", "b", 0), ENOTDIR);
  EXPECT_EQ(rename2("d/e", "e", 0), 0);
  EXPECT_EQ(info(root / "d").st_nlink, 2u);
  EXPECT_EQ(info(root).st_nlink, 4u);
  EXPECT_EQ(rename2("missing", "x", 0), ENOENT);
}

TEST_F(MountTest, LinksAndSymlinks) {
  put(root / "a", "text");
  stdfs::create_hard_link(root / "a", root / "b");
  EXPECT_EQ(info(root / "a").st_nlink, 2u);
  EXPECT_EQ(info(root / "a").st_ino, info(root / "b").st_ino);
  stdfs::create_symlink("a", root / "s");
  EXPECT_EQ(info(root / "s").st_size, 1);
  stdfs::remove(root / "a");
  EXPECT_EQ(info(root / "b").st_nlink, 1u);
  remount_kernel();
  EXPECT_EQ(content(root / "b"), "text");
  EXPECT_EQ(stdfs::read_symlink(root / "s"), "a");
  EXPECT_NE(::link((root / "missing").c_str(), (root / "x").c_str()), 0);
}

TEST_F(MountTest, SpecialFiles) {
  EXPECT_EQ(::mkfifo((root / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(::mknod((root / "socket").c_str(), S_IFSOCK | 0600, 0), 0);
  remount_kernel();
  EXPECT_TRUE(S_ISFIFO(info(root / "fifo").st_mode));
  EXPECT_TRUE(S_ISSOCK(info(root / "socket").st_mode));
}

TEST_F(MountTest, DevicesWorkWhereTheyMay) {
  const dev_t null = makedev(1, 3);
  unmount_kernel();
  mount_kernel({"dev"});
  ASSERT_EQ(::mknod((root / "null").c_str(), S_IFCHR | 0666, null), 0);
  put(root / "null", "gone");
  EXPECT_EQ(content(root / "null"), "");
  remount_kernel();
  EXPECT_TRUE(S_ISCHR(info(root / "null").st_mode));
  EXPECT_EQ(info(root / "null").st_rdev, null);
  EXPECT_EQ(::open((root / "null").c_str(), O_RDONLY), -1);
  EXPECT_EQ(errno, EACCES);
}

TEST_F(MountTest, TruncateSparseAndHoles) {
  const File file(root / "a", O_RDWR | O_CREAT);
  ASSERT_EQ(::pwrite(file, "x", 1, 100 * kTestBlock), 1);
  EXPECT_EQ(info(root / "a").st_blocks, 0);
  ASSERT_EQ(::fsync(file), 0);
  EXPECT_EQ(info(root / "a").st_size, 100 * kTestBlock + 1);
  EXPECT_EQ(info(root / "a").st_blocks, 1);  // the kernel was told at once
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
  const File file(root / "a", O_RDWR | O_CREAT);
  ASSERT_EQ(::pwrite(file, "x", 1, 10 * kTestBlock), 1);
  EXPECT_EQ(::lseek(file, 0, SEEK_DATA), 10 * kTestBlock);
  EXPECT_EQ(::lseek(file, 10 * kTestBlock, SEEK_HOLE), 10 * kTestBlock + 1);
}

TEST_F(MountTest, WhoWaitsForTheDeviceKeepsNobodyElseWaiting) {
  put(root / "a", "x");
  device->hold_writes(true);
  const File file(root / "b", O_RDWR | O_CREAT);
  auto synced = std::async(std::launch::async,
                           [&] { return ::write(file, "y", 1) == 1 && ::fsync(file) == 0; });
  ASSERT_TRUE(device->wait_held_writes(1));
  auto asked = std::async(std::launch::async, [this] {
    stdfs::rename(root / "a", root / "c");
    return content(root / "c");
  });
  EXPECT_EQ(asked.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  device->hold_writes(false);
  EXPECT_TRUE(synced.get());
  EXPECT_EQ(asked.get(), "x");
}

// The kernel would take the times that it cannot send for a lost write, and tell who closes the
// file next.
TEST_F(MountTest, WhoIsKilledInARenameLeavesNoErrorBehind) {
  put(root / "old", "old");
  ASSERT_TRUE(fs->sync_all());
  device->hold_writes(true);
  put(root / "new", "new");
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(::syscall(SYS_renameat2, AT_FDCWD, (root / "new").c_str(), AT_FDCWD,
                      (root / "old").c_str(), 0) != 0);
  ASSERT_TRUE(device->wait_held_writes(1));
  // It waits for the answer.
  const std::string call = std::to_string(SYS_renameat2) + " ";
  while (!content(stdfs::path("/proc") / std::to_string(child) / "syscall").starts_with(call))
    std::this_thread::yield();
  ::kill(child, SIGKILL);
  device->hold_writes(false);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  for (const char* name : {"old", "new"}) {
    const int fd = ::open((root / name).c_str(), O_RDONLY);
    ASSERT_GE(fd, 0) << name << ": " << std::strerror(errno);
    EXPECT_EQ(::close(fd), 0) << name << ": " << std::strerror(errno);
  }
}

TEST_F(MountTest, MoreMayWaitThanThereAreThreads) {
  device->hold_writes(true);
  std::vector<std::future<bool>> synced;
  for (int i = 0; i < 100; ++i)
    synced.push_back(std::async(std::launch::async, [this, i] {
      const File file(root / std::to_string(i), O_RDWR | O_CREAT);
      return ::write(file, "y", 1) == 1 && ::fsync(file) == 0;
    }));
  ASSERT_TRUE(device->wait_held_writes(1));
  device->hold_writes(false);
  for (auto& one : synced) EXPECT_TRUE(one.get());
}

TEST_F(MountTest, Fallocate) {
  put(root / "a", std::string(4 * kTestBlock, 'x'));
  const File file(root / "a", O_RDWR);
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
    const File file(root / "a", O_RDWR | O_DIRECT);
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
  // Half of them count in a map, the others by reading and writing.
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
    const File file(root / "a", O_RDWR | O_CREAT);
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

TEST_F(MountTest, AListingThatTheKernelRemembersIsNeverOld) {
  const auto names = [this](const char* directory) {
    std::set<std::string> all;
    for (const auto& entry : stdfs::directory_iterator(root / directory))
      all.insert(entry.path().filename());
    return all;
  };
  using Names = std::set<std::string>;
  stdfs::create_directory(root / "d");
  stdfs::create_directory(root / "e");
  EXPECT_EQ(names("d"), Names());
  put(root / "d/a", "1");
  EXPECT_EQ(names("d"), Names({"a"}));
  EXPECT_EQ(names("d"), Names({"a"}));
  stdfs::rename(root / "d/a", root / "d/b");
  EXPECT_EQ(names("d"), Names({"b"}));
  stdfs::create_hard_link(root / "d/b", root / "d/c");
  EXPECT_EQ(names("d"), Names({"b", "c"}));
  EXPECT_EQ(names("e"), Names());
  stdfs::rename(root / "d/b", root / "e/b");
  EXPECT_EQ(names("d"), Names({"c"}));
  EXPECT_EQ(names("e"), Names({"b"}));
  stdfs::rename(root / "d/c", root / "e/b");  // of the same file: nothing happens
  EXPECT_EQ(info(root / "e/b").st_nlink, 2u);
  stdfs::remove(root / "d/c");
  EXPECT_EQ(names("d"), Names());
  EXPECT_EQ(info(root / "e/b").st_nlink, 1u);
}

TEST_F(MountTest, EveryOffsetThatTheKernelTakesCanBeWritten) {
  constexpr off_t kLast = std::numeric_limits<off_t>::max() - 1;
  {
    const File file(root / "far", O_RDWR | O_CREAT);
    ASSERT_EQ(::pwrite(file, "start", 5, 0), 5);
    ASSERT_EQ(::pwrite(file, "z", 1, kLast), 1);
    ASSERT_EQ(::fsync(file), 0) << std::strerror(errno);
  }
  remount_kernel();
  const File file(root / "far", O_RDONLY);
  EXPECT_EQ(info(root / "far").st_size, kLast + 1);
  char bytes[8] = {};
  EXPECT_EQ(::pread(file, bytes, 2, kLast - 1), 2);
  EXPECT_EQ(bytes[1], 'z');
  EXPECT_EQ(::pread(file, bytes, 8, 0), 8);
  EXPECT_EQ(std::string(bytes, 8), std::string("start\0\0\0", 8));
}

TEST_F(MountTest, ADirectoryThatWasMovedNamesItsNewParent) {
  const auto parent = [this](const char* directory) -> ino_t {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir((root / directory).c_str()),
                                                   ::closedir);
    while (const dirent* entry = ::readdir(open.get()))
      if (entry->d_name == std::string("..")) return entry->d_ino;
    return 0;
  };
  for (const char* name : {"a", "b", "a/d", "b/e"}) stdfs::create_directory(root / name);
  const ino_t a = info(root / "a").st_ino, b = info(root / "b").st_ino;
  EXPECT_EQ(parent("a/d"), a);
  EXPECT_EQ(parent("b/e"), b);
  stdfs::rename(root / "a/d", root / "b/d");
  EXPECT_EQ(parent("b/d"), b);
  stdfs::rename(root / "b/d", root / "a/d");
  EXPECT_EQ(parent("a/d"), a);
  ASSERT_EQ(::renameat2(AT_FDCWD, (root / "a/d").c_str(), AT_FDCWD, (root / "b/e").c_str(),
                        RENAME_EXCHANGE),
            0);
  EXPECT_EQ(parent("a/d"), a);
  EXPECT_EQ(parent("b/e"), b);
}

TEST_F(MountTest, ALargeDirectory) {
  std::set<std::string> expected;
  stdfs::create_directory(root / "d");
  for (int i = 0; i < 5000; ++i) {
    const std::string name = "file number " + std::to_string(i) + std::string(i % 200, '-');
    expected.insert(name);
    ASSERT_GE(::close(::open((root / "d" / name).c_str(), O_CREAT | O_WRONLY, 0600)), 0);
  }
  for (int again = 0; again < 2; ++again) {
    std::set<std::string> seen;
    for (const auto& entry : stdfs::directory_iterator(root / "d")) {
      EXPECT_TRUE(seen.insert(entry.path().filename()).second) << entry.path();
      EXPECT_EQ(info(entry.path()).st_mode, S_IFREG | 0600u);
    }
    EXPECT_EQ(seen, expected);
    remount_kernel();
  }
  EXPECT_EQ(stdfs::remove_all(root / "d"), 5001u);
  remount_kernel();
  EXPECT_EQ(fs->status().inodes, 1u);
}

// What was read before stays read, and what was there all the time is found, whatever happens to
// the kernel's memory of the listing and to other names meanwhile.
TEST_F(MountTest, AListingGoesOnWhereItWas) {
  constexpr int kNames = 2000;
  const auto made = [this](const std::string& name) {
    EXPECT_GE(::close(::open((root / "d" / name).c_str(), O_CREAT | O_WRONLY, 0600)), 0) << name;
  };
  const auto list = [this] {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : stdfs::directory_iterator(root / "d")) ++count;
    return count;
  };
  enum Disturbance { nothing, forgotten, another_reader, removals, count };
  for (int disturbance = nothing; disturbance < count; ++disturbance) {
    SCOPED_TRACE(disturbance);
    stdfs::create_directory(root / "d");
    for (int i = 0; i < kNames; ++i) made("name " + std::to_string(i));
    ASSERT_EQ(list(), kNames);
    ASSERT_EQ(list(), kNames);  // of the kernel's memory
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir((root / "d").c_str()),
                                                        ::closedir);
    std::set<std::string> seen;
    const auto next = [&] {
      const dirent* entry = ::readdir(directory.get());
      if (!entry) return false;
      const bool is_new = entry->d_name[0] == '.' || seen.insert(entry->d_name).second;
      EXPECT_TRUE(is_new) << entry->d_name;
      return true;
    };
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(next());
    if (disturbance == forgotten) {
      ASSERT_EQ(::posix_fadvise(::dirfd(directory.get()), 0, 0, POSIX_FADV_DONTNEED), 0);
    }
    if (disturbance == another_reader) {
      made("other");
      stdfs::remove(root / "d/other");
      stdfs::directory_iterator(root / "d");
    }
    if (disturbance == removals) {
      for (const std::string& name : seen) stdfs::remove(root / "d" / name);
      EXPECT_EQ(list(), kNames - static_cast<int>(seen.size()));
    }
    while (next()) continue;
    EXPECT_EQ(seen.size(), std::size_t{kNames});
    stdfs::remove_all(root / "d");
  }
}

TEST_F(MountTest, ManyMaySeekAtATime) {
  std::vector<std::future<int>> failures;
  for (int i = 0; i < 100; ++i)
    failures.push_back(std::async(std::launch::async, [this, i] {
      const File file(root / std::to_string(i), O_RDWR | O_CREAT);
      int failed = 0;
      for (int round = 0; round < 5; ++round)
        failed += ::pwrite(file, "x", 1, round * 8 * kTestBlock) != 1 ||
                  ::lseek(file, round * 8 * kTestBlock, SEEK_DATA) != round * 8 * kTestBlock;
      return failed;
    }));
  for (auto& failed : failures) EXPECT_EQ(failed.get(), 0);
}

TEST_F(MountTest, TimesAndModes) {
  put(root / "a", "x");
  const timespec times[2] = {{1'000'000'000, 123'456'789}, {-5, 987'654'321}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root / "a").c_str(), times, 0), 0);
  ASSERT_EQ(::chmod((root / "a").c_str(), 04751), 0);
  remount_kernel();
  const struct stat now = info(root / "a");
  EXPECT_EQ(now.st_atim.tv_sec, 1'000'000'000);
  EXPECT_EQ(now.st_atim.tv_nsec, 123'456'789);
  EXPECT_EQ(now.st_mtim.tv_sec, -5);
  EXPECT_EQ(now.st_mtim.tv_nsec, 987'654'321);
  EXPECT_EQ(now.st_mode, S_IFREG | 04751u);
  // Writing changes the times.
  { std::ofstream(root / "a") << "y"; }
  remount_kernel();
  EXPECT_GT(info(root / "a").st_mtim.tv_sec, 1'600'000'000);
  EXPECT_GT(info(root / "a").st_ctim.tv_sec, 1'600'000'000);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chmod((root / "a").c_str(), 06755), 0);
    ASSERT_EQ(::chown((root / "a").c_str(), 7, 8), 0);
    EXPECT_EQ(info(root / "a").st_uid, 7u);
    EXPECT_EQ(info(root / "a").st_gid, 8u);
    EXPECT_EQ(info(root / "a").st_mode & 07777, 0755u);  // as chown(2) says
  }
}

TEST_F(MountTest, StatfsIsHonest) {
  struct statvfs before {
  }, after{};
  ASSERT_EQ(::statvfs(root.c_str(), &before), 0);
  EXPECT_EQ(before.f_frsize, kTestBlock);
  EXPECT_EQ(before.f_namemax, 255u);
  EXPECT_EQ(before.f_blocks, before.f_bfree);
  const File file(root / "a", O_RDWR | O_CREAT);
  ASSERT_EQ(::pwrite(file, pattern(10 * kTestBlock).data(), 10 * kTestBlock, 0),
            ssize_t{10 * kTestBlock});
  ASSERT_EQ(::fsync(file), 0);
  ASSERT_EQ(::statvfs(root.c_str(), &after), 0);
  EXPECT_EQ(after.f_blocks - after.f_bfree, 10u);
  EXPECT_EQ(after.f_files - after.f_ffree, 2u);
}

TEST_F(MountTest, ExtendedAttributes) {
  put(root / "a", "x");
  const std::string path = root / "a";
  EXPECT_EQ(::getxattr(path.c_str(), "user.none", nullptr, 0), -1);
  EXPECT_EQ(errno, ENODATA);
  ASSERT_EQ(::setxattr(path.c_str(), "user.one", "value", 5, XATTR_CREATE), 0);
  ASSERT_EQ(::setxattr(path.c_str(), "user.two", "", 0, 0), 0);
  EXPECT_EQ(::setxattr(path.c_str(), "user.one", "v", 1, XATTR_CREATE), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(::setxattr(path.c_str(), "user.three", "v", 1, XATTR_REPLACE), -1);
  EXPECT_EQ(errno, ENODATA);
  remount_kernel();
  char value[10], list[100];
  ASSERT_EQ(::getxattr(path.c_str(), "user.one", value, sizeof value), 5);
  EXPECT_EQ(std::string(value, 5), "value");
  EXPECT_EQ(::getxattr(path.c_str(), "user.one", value, 2), -1);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(::listxattr(path.c_str(), list, sizeof list), 18);
  ASSERT_EQ(::removexattr(path.c_str(), "user.one"), 0);
  EXPECT_EQ(::listxattr(path.c_str(), list, sizeof list), 9);
  EXPECT_EQ(::setxattr(path.c_str(), "system.posix_acl_access", "v", 1, 0), -1);
}

TEST_F(MountTest, TimesThatAreNotKeptAreTheNearest) {
  put(root / "a", "x");
  const std::array<timespec, 2> times{timespec{1 << 30, 0}, timespec{std::int64_t{1} << 34, 5}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root / "a").c_str(), times.data(), 0), 0);
  remount_kernel();
  EXPECT_GT(info(root / "a").st_mtim.tv_sec, std::int64_t{1} << 33);
  EXPECT_EQ(info(root / "a").st_atim.tv_sec, 1 << 30);
}

TEST_F(MountTest, WhoReadsQuietlyLeavesNoAccessTime) {
  put(root / "a", "x");
  const std::array<timespec, 2> times{timespec{1, 0}, timespec{1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root / "a").c_str(), times.data(), 0), 0);
  char byte = 0;
  for (const int quietly : {O_NOATIME, 0}) {
    remount_kernel();
    const File file(root / "a", O_RDONLY | quietly);
    ASSERT_EQ(::read(file, &byte, 1), 1);
    remount_kernel();
    EXPECT_EQ(info(root / "a").st_atim.tv_sec == 1, quietly != 0);
  }
}

TEST_F(MountTest, ProcessorsStayAwakeWhileQuestionsFollowClosely) {
  const auto asked = [&] {
    std::vector<std::int32_t> latencies(1 << 16);
    const ssize_t got = ::pread(cpu_latency.get(), latencies.data(), 4 * latencies.size(), 0);
    latencies.resize(static_cast<std::size_t>(got) / 4);
    return latencies;
  };
  struct stat file {};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int i = 0; ::fstat(cpu_latency.get(), &file) == 0 && file.st_size == 0; ++i) {
    ASSERT_NE(::access((root / std::to_string(i)).c_str(), F_OK), 0);
    if (std::chrono::steady_clock::now() > deadline)
      GTEST_SKIP() << "this machine is too busy for questions to follow each other closely";
  }
  while (asked().back() == 0) std::this_thread::yield();
  const auto latencies = asked();
  for (std::size_t i = 0; i < latencies.size(); ++i)
    EXPECT_EQ(latencies[i], i % 2 == 0 ? 0 : INT32_MAX) << i;
}

TEST_F(MountTest, NamesThatAreTooLongAndMissing) {
  EXPECT_EQ(::open((root / std::string(256, 'n')).c_str(), O_CREAT | O_WRONLY, 0600), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
  put(root / std::string(255, 'n'), "x");
  EXPECT_FALSE(stdfs::exists(root / "later"));
  put(root / "later", "x");  // although the kernel remembered that it does not exist
  EXPECT_TRUE(stdfs::exists(root / "later"));
  EXPECT_EQ(::rmdir((root / "later").c_str()), -1);
  EXPECT_EQ(errno, ENOTDIR);
}

}  // namespace
}  // namespace s3oram
