// Tests how much memory counts as usable, and as left, under limits of all kinds.
#include "oramcore/base/memory_limit.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = 1 << 20;

class MemoryLimit : public ::testing::Test {
 protected:
  void put(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::uint64_t usable() const { return usable_memory(root_); }
  MemoryRoom room() const { return memory_room(root_); }

  const std::uint64_t all_ = usable_memory("/nowhere");

 private:
  TemporaryDirectory folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(MemoryLimit, IsTheMachinesMemoryWithoutGroups) {
  EXPECT_GT(all_, 64 * kMiB);
  EXPECT_EQ(usable(), all_);
}

TEST_F(MemoryLimit, IsTheLeastOfTheGroupsAbove) {
  put("proc/self/cgroup", "0::/a/b/c\n");
  put("sys/fs/cgroup/a/b/c/memory.max", "max\n");
  EXPECT_EQ(usable(), all_);
  put("sys/fs/cgroup/a/memory.max", "50331648\n");
  EXPECT_EQ(usable(), 48 * kMiB);
  put("sys/fs/cgroup/a/b/memory.max", "33554432\n");
  EXPECT_EQ(usable(), 32 * kMiB);
}

TEST_F(MemoryLimit, IsThatOfTheFirstVersionToo) {
  put("proc/self/cgroup", "5:cpu,memory:/\n4:memory_more:/d\n1:name=systemd:/d\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(usable(), all_);
  put("proc/self/cgroup", "4:cpu,memory:/d\n");
  put("sys/fs/cgroup/memory/d/memory.limit_in_bytes", "50331648\n");
  EXPECT_EQ(usable(), 48 * kMiB);
}

TEST_F(MemoryLimit, IsWhatIsThrottledAtToo) {
  put("proc/self/cgroup", "0::/a\n");
  put("sys/fs/cgroup/a/memory.max", "50331648\n");
  put("sys/fs/cgroup/a/memory.high", "33554432\n");
  EXPECT_EQ(usable(), 32 * kMiB);
}

// In a container the groups above cannot be seen, and the visible ones are not where the list says.
TEST_F(MemoryLimit, OfTheFirstVersionHoldsAboveAContainerToo) {
  put("proc/self/cgroup", "4:memory:/docker/1\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/memory.stat", "cache 0\nhierarchical_memory_limit 50331648\n");
  EXPECT_EQ(usable(), 48 * kMiB);
}

TEST_F(MemoryLimit, WhatTheKernelKeepsOfFilesIsLeft) {
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/memory.max", "104857600\n");
  put("sys/fs/cgroup/a/memory.current", "94371840\n");  // 90 MiB, 50 of which are files
  put("sys/fs/cgroup/a/memory.stat",
      "anon 41943040\nactive_file 20971520\ninactive_file 31457280\nfile_dirty 10485760\n");
  EXPECT_EQ(room().limit, 100 * kMiB);
  EXPECT_EQ(room().left, 50 * kMiB) << "without what is still to be written";
  put("proc/self/cgroup", "4:memory:/a/b\n");
  put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "104857600\n");
  put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "94371840\n");
  put("sys/fs/cgroup/memory/a/memory.stat",
      "total_active_file 20971520\ntotal_inactive_file 31457280\ntotal_writeback 20971520\n");
  EXPECT_EQ(room().left, 40 * kMiB);
}

TEST_F(MemoryLimit, TheMachineMayBeShortToo) {
  put("proc/meminfo", "MemTotal:       99999 kB\nMemAvailable:    10240 kB\n");
  EXPECT_EQ(room().limit, all_);
  EXPECT_EQ(room().left, 10 * kMiB);
  EXPECT_TRUE(room().is_short());
}

TEST(MemoryRoomTest, ShortAndAmple) {
  EXPECT_TRUE((MemoryRoom{512 * kMiB, 63 * kMiB}.is_short()));
  EXPECT_FALSE((MemoryRoom{512 * kMiB, 64 * kMiB}.is_short()));
  EXPECT_FALSE((MemoryRoom{512 * kMiB, 128 * kMiB}.is_ample()));
  EXPECT_TRUE((MemoryRoom{512 * kMiB, 129 * kMiB}.is_ample()));
  EXPECT_FALSE((MemoryRoom{65536 * kMiB, 256 * kMiB}.is_short())) << "of a large machine";
}

TEST_F(MemoryLimit, LeavesMostForTheRest) {
  EXPECT_EQ(default_cache_bytes(65536 * kMiB), 4096 * kMiB);
  EXPECT_EQ(default_cache_bytes(2560 * kMiB), 256 * kMiB);
  EXPECT_EQ(default_cache_bytes(96 * kMiB), 12 * kMiB);
  EXPECT_EQ(default_cache_bytes(96 * kMiB, 3), 4 * kMiB);
  EXPECT_EQ(default_file_cache(65536 * kMiB), 256 * kMiB);
  EXPECT_EQ(default_file_cache(512 * kMiB), 64 * kMiB);
  EXPECT_EQ(default_file_cache(16 * kMiB), 8 * kMiB);
}

}  // namespace
}  // namespace s3oram
