// Tests the threads that answer the kernel.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <chrono>
#include <future>
#include <vector>

#include "tests/fused/kernel/mount_fixture.h"

namespace s3oram {
namespace {

TEST_F(MountTest, WhoWaitsForTheDeviceKeepsNobodyElseWaiting) {
  put(root / "a", "x");
  device->hold_writes(true);
  const OpenFile file(root / "b", O_RDWR | O_CREAT);
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

// The kernel could mistake the times that it cannot send for a lost write, and report an error to
// the process that closes the file next.
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
  // Waits until the child waits for its answer.
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
      const OpenFile file(root / std::to_string(i), O_RDWR | O_CREAT);
      return ::write(file, "y", 1) == 1 && ::fsync(file) == 0;
    }));
  ASSERT_TRUE(device->wait_held_writes(1));
  device->hold_writes(false);
  for (auto& one : synced) EXPECT_TRUE(one.get());
}

// Each rename needs other threads to take requests that the kernel still has.
TEST_F(MountTest, MoreMayRenameThanThereAreThreads) {
  constexpr int kMany = 100;  // the kernel renames one at a time in a directory
  const auto place = [this](int i) { return root / std::to_string(i); };
  for (int i = 0; i < kMany; ++i) {
    stdfs::create_directory(place(i));
    put(place(i) / "old", "old");
  }
  ASSERT_TRUE(fs->sync_all());
  device->hold_writes(true);
  std::vector<std::future<bool>> renamed;
  for (int i = 0; i < kMany; ++i)
    renamed.push_back(std::async(std::launch::async, [&, i] {
      const OpenFile file(place(i) / "new", O_WRONLY | O_CREAT);
      return ::write(file, "y", 1) == 1 &&
             ::rename((place(i) / "new").c_str(), (place(i) / "old").c_str()) == 0;
    }));
  ASSERT_TRUE(device->wait_held_writes(1));
  device->hold_writes(false);
  for (auto& one : renamed) EXPECT_TRUE(one.get());
  for (int i = 0; i < kMany; ++i) EXPECT_EQ(content(place(i) / "old"), "y");
}

TEST_F(MountTest, ProcessorsStayAwakeWhileQuestionsFollowClosely) {
  const auto asked = [&] {
    std::vector<std::int32_t> latencies(1 << 16);
    const ssize_t got = ::pread(cpu_latency.get(), latencies.data(), 4 * latencies.size(), 0);
    latencies.resize(static_cast<std::size_t>(got) / 4);
    return latencies;
  };
  struct stat file {};
  // On a busy machine it takes a while until many requests have followed each other closely.
  for (int i = 0; ::fstat(cpu_latency.get(), &file) == 0 && file.st_size == 0; ++i)
    ASSERT_NE(::access((root / std::to_string(i)).c_str(), F_OK), 0);
  while (asked().back() == 0) std::this_thread::yield();
  const auto latencies = asked();
  for (std::size_t i = 0; i < latencies.size(); ++i)
    EXPECT_EQ(latencies[i], i % 2 == 0 ? 0 : INT32_MAX) << i;
}

}  // namespace
}  // namespace s3oram
