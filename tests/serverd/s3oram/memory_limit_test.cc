#include "serverd/s3oram/memory_limit.h"

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

TEST_F(MemoryLimit, LeavesMostForTheRest) {
  EXPECT_EQ(default_cache_bytes(65536 * kMiB), 4096 * kMiB);
  EXPECT_EQ(default_cache_bytes(2560 * kMiB), 256 * kMiB);
  EXPECT_EQ(default_cache_bytes(96 * kMiB), 12 * kMiB);
}

}  // namespace
}  // namespace s3oram
