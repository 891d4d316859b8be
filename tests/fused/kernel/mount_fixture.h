// A file system that the kernel has mounted, served by this process.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fused/kernel/fuse_loop.h"
#include "fused/kernel/fuse_mount.h"
#include "tests/fused/fixture.h"

namespace s3oram {

namespace stdfs = std::filesystem;

/// A file descriptor that closes itself.
class OpenFile {
 public:
  OpenFile(const stdfs::path& path, int flags) : fd_(::open(path.c_str(), flags, 0644)) {
    EXPECT_GE(fd_, 0) << path << ": " << std::strerror(errno);
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

inline std::string content(const stdfs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void put(const stdfs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  EXPECT_TRUE(out) << path;
}
inline struct stat info(const stdfs::path& path) {
  struct stat out {};
  EXPECT_EQ(::lstat(path.c_str(), &out), 0) << path << ": " << std::strerror(errno);
  return out;
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
    ASSERT_TRUE(kernel->start(Descriptor(::dup(cpu_latency.get()))));
    runner = std::thread([this] { EXPECT_TRUE(kernel->wait()); });
  }
  void unmount_kernel() {
    if (!kernel) return;
    kernel->stop();
    runner.join();
    kernel.reset();
  }
  /// Acts as if the daemon died: data that the kernel has not sent is lost.
  void crash_kernel() {
    device->fail_writes(true);
    device->fail_commits(true);
    unmount_kernel();
    crash();
  }
  void remount_kernel() {
    unmount_kernel();
    remount();
    mount_kernel();
  }

  const Descriptor cpu_latency{::memfd_create("latency", 0)};  // stands in for the machine's own
  stdfs::path root;
  std::unique_ptr<FuseMount> kernel;
  std::thread runner;
};

}  // namespace s3oram
