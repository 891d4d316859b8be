// Tests a mount that loses its file system, refuses everything, and gets a file system again.
#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#include <future>

#include "fused/kernel/refusing_loop.h"
#include "tests/fused/kernel/mount_fixture.h"

namespace s3oram {
namespace {

constexpr std::size_t kLargest = 1u << 20;

class MountSuspendTest : public MountTest {
 protected:
  /// Ends the file system, but keeps the mount.
  void suspend() {
    kernel->withdraw();
    ASSERT_TRUE(fs->sync_all());
    kernel->suspend();
    runner.join();
    auto mount = kernel->hold();
    ASSERT_TRUE(mount);
    held = std::move(*mount);
    kernel.reset();
    auto kept = fs->suspend();
    ASSERT_TRUE(kept) << kept.error().message;
    crash();
    loop = std::make_unique<RefusingLoop>(held.device.get(), kLargest, *kept, held.writers);
    ASSERT_TRUE(loop->start([this] { gone.set_value(); }));
  }
  void resume() {
    loop->stop();
    options.references = loop->references();
    held.writers = loop->writers();
    loop.reset();
    mount();
    auto resumed = FuseMount::resume(*fs, {root.string(), "test,vault", {}}, std::move(held));
    ASSERT_TRUE(resumed) << resumed.error().message;
    kernel = std::move(*resumed);
    ASSERT_TRUE(kernel->start());
    runner = std::thread([this] { EXPECT_TRUE(kernel->wait()); });
  }
  static int error_of(long outcome) { return outcome < 0 ? errno : 0; }
  int error_at(const char* name) {
    struct stat found {};
    return error_of(::lstat((root / name).c_str(), &found));
  }

  HeldMount held;
  std::unique_ptr<RefusingLoop> loop;
  std::promise<void> gone;
};

TEST_F(MountSuspendTest, EverythingIsRefusedAndNothingIsCached) {
  put(root / "file", "content");
  stdfs::create_directory(root / "directory");
  put(root / "directory" / "inner", "text");
  stdfs::create_symlink("file", root / "link");
  EXPECT_EQ(content(root / "file"), "content");
  suspend();
  for (const char* name : {"", "file", "directory", "directory/inner", "link", "missing"})
    EXPECT_EQ(error_at(name), EACCES) << name;
  EXPECT_EQ(error_of(::open((root / "new").c_str(), O_CREAT | O_WRONLY, 0600)), EACCES);
  EXPECT_EQ(error_of(::mkdir((root / "new").c_str(), 0700)), EACCES);
  EXPECT_EQ(error_of(::unlink((root / "file").c_str())), EACCES);
  EXPECT_EQ(error_of(::open(root.c_str(), O_RDONLY | O_DIRECTORY)), EACCES);
  struct statfs figures {};
  EXPECT_EQ(error_of(::statfs(root.c_str(), &figures)), EACCES);
  resume();
  EXPECT_EQ(content(root / "file"), "content");
  EXPECT_EQ(content(root / "directory" / "inner"), "text");
  EXPECT_EQ(error_at("missing"), ENOENT);
}

TEST_F(MountSuspendTest, OpenFilesAreRefusedAndGoOn) {
  put(root / "file", std::string(10'000, 'x'));
  const OpenFile file(root / "file", O_RDWR);
  char byte = 0;
  ASSERT_EQ(::pwrite(file, "dirty", 5, 0), 5);  // still in the kernel's cache
  suspend();
  EXPECT_EQ(error_of(::pread(file, &byte, 1, 0)), EACCES);
  EXPECT_EQ(error_of(::pwrite(file, std::string(8192, 'y').data(), 8192, 0)), EACCES);
  EXPECT_EQ(error_of(::ftruncate(file, 1)), EACCES);
  EXPECT_EQ(::fsync(file), 0);  // everything is durable
  resume();
  EXPECT_EQ(::pread(file, &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'd');
  EXPECT_EQ(::pwrite(file, "D", 1, 0), 1);
  EXPECT_EQ(::fsync(file), 0);
  remount_kernel();
  EXPECT_EQ(content(root / "file"), "Dirty" + std::string(9'995, 'x'));
}

TEST_F(MountSuspendTest, FilesThatAreClosedMeanwhileAreFreed) {
  put(root / "kept", "x");
  auto file = std::make_unique<OpenFile>(root / "kept", O_RDWR);
  auto unlinked = std::make_unique<OpenFile>(root / "gone", O_RDWR | O_CREAT);
  ASSERT_EQ(::pwrite(*unlinked, pattern(5 * kTestBlock).data(), 5 * kTestBlock, 0), 5 * kTestBlock);
  ASSERT_EQ(::unlink((root / "gone").c_str()), 0);
  suspend();
  EXPECT_EQ(loop->references().counts.size(), 3u);
  file.reset();
  unlinked.reset();
  resume();
  EXPECT_EQ(content(root / "kept"), "x");
  unmount_kernel();
  remount();
  EXPECT_EQ(device->mapped().size(), 1u);
  mount_kernel();
}

TEST_F(MountSuspendTest, AnUnlinkedFileGoesOn) {
  const OpenFile file(root / "gone", O_RDWR | O_CREAT);
  const std::string text = pattern(3 * kTestBlock + 5);
  ASSERT_EQ(::pwrite(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(::unlink((root / "gone").c_str()), 0);
  suspend();
  resume();
  std::string read(text.size(), '\0');
  EXPECT_EQ(::pread(file, read.data(), read.size(), 0), static_cast<ssize_t>(read.size()));
  EXPECT_EQ(read, text);
}

TEST_F(MountSuspendTest, AWorkingDirectoryIsOneAgain) {
  stdfs::create_directory(root / "directory");
  put(root / "directory" / "inner", "text");
  const OpenFile directory(root / "directory", O_RDONLY | O_DIRECTORY);
  suspend();
  EXPECT_EQ(error_of(::openat(directory, "inner", O_RDONLY)), EACCES);
  resume();
  const int inner = ::openat(directory, "inner", O_RDONLY);
  EXPECT_GE(inner, 0) << std::strerror(errno);
  ::close(inner);
  EXPECT_EQ(stdfs::read_symlink("/proc/self/fd/" + std::to_string(directory)), root / "directory");
}

TEST_F(MountSuspendTest, ItCanBeSuspendedAgain) {
  put(root / "file", "1");
  for (int i = 0; i < 3; ++i) {
    suspend();
    EXPECT_EQ(error_at("file"), EACCES);
    resume();
    EXPECT_EQ(content(root / "file"), "1");
  }
}

TEST_F(MountSuspendTest, AnUnmountIsNoticed) {
  suspend();
  ASSERT_EQ(std::system(("fusermount3 -u " + root.string()).c_str()), 0);
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  loop.reset();
  held = {};
  mount();
}

}  // namespace
}  // namespace s3oram
