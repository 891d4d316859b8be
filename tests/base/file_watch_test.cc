// Tests that a program notices when a file that it has open is lost, replaced or cut short, but not
// when it is only moved together with the directories above it.
#include "oramcore/base/file_watch.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

class FileWatchTest : public testing::Test {
 protected:
  void SetUp() override { make("vault"); }
  fs::path path(const std::string& name) const { return root_.path() / name; }
  /// Makes a vault of that name, with the file of a store.
  void make(const std::string& name) const {
    fs::create_directories(path(name) / "store");
    std::ofstream(path(name) / "store/file") << "content";
  }
  void move(const std::string& from, const std::string& to) const {
    fs::rename(path(from), path(to));
  }
  static void expect_damaged(const FileWatch& watch, const std::string& words) {
    const Status found = watch.check();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Errc::damaged_vault);
    EXPECT_NE(found.error().message.find(words), std::string::npos) << found.error().message;
  }
  TemporaryDirectory root_;
};

/// Returns 0 if a writable store below a read-only directory counts as well until the store becomes
/// read-only too. Mounts, so it runs in a process of its own.
int watch_below_read_only(const fs::path& above, const fs::path& store) {
  const int spaces = CLONE_NEWNS | (::geteuid() == 0 ? 0 : CLONE_NEWUSER);
  if (::unshare(spaces) != 0 || ::mount("", "/", nullptr, MS_PRIVATE | MS_REC, nullptr) != 0)
    return 1;
  if (::mount("none", above.c_str(), "tmpfs", 0, nullptr) != 0 || !fs::create_directory(store))
    return 2;
  if (::mount("none", store.c_str(), "tmpfs", 0, nullptr) != 0) return 3;
  std::ofstream(store / "file") << "content";
  const FileWatch watch(store / "file", FileWatch::Size::never_shrinks,
                        FileWatch::From::the_one_above);
  const auto make_read_only = [](const fs::path& mount) {
    return ::mount("none", mount.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  };
  if (!make_read_only(above)) return 4;
  if (!watch.check()) return 5;
  if (!make_read_only(store)) return 6;
  return watch.check() ? 7 : 0;
}

// The mounts are those that systemd makes for a server: nothing beside the store is writable or
// visible.
TEST_F(FileWatchTest, TheFileSystemOfTheFileDecidesWhetherItCanBeWritten) {
  EXPECT_EXIT(std::_Exit(watch_below_read_only(path("vault"), path("vault/store"))),
              testing::ExitedWithCode(0), "");
}

TEST_F(FileWatchTest, NoticesWhatHappensToTheFile) {
  const FileWatch watch(path("vault/store/file"));
  EXPECT_TRUE(watch.check());
  fs::resize_file(path("vault/store/file"), 3);
  expect_damaged(watch, "was truncated");
  move("vault/store/file", "kept");
  expect_damaged(watch, "was removed");
  std::ofstream(path("vault/store/file")) << "another";
  expect_damaged(watch, "was replaced");
}

TEST_F(FileWatchTest, FollowsAVaultThatIsMoved) {
  const FileWatch watch(path("vault/store/file"));
  move("vault", "moved");
  EXPECT_TRUE(watch.check());
  fs::remove(path("moved/store/file"));
  expect_damaged(watch, "was removed");
}

TEST_F(FileWatchTest, NoticesAnotherStoreInTheSamePlace) {
  make("older");
  const FileWatch watch(path("vault/store/file"), FileWatch::Size::never_shrinks,
                        FileWatch::From::the_one_above);
  move("vault/store", "kept");
  move("older/store", "vault/store");
  expect_damaged(watch, "was replaced");
  move("vault/store", "older/store");
  move("kept", "vault/store");
  EXPECT_TRUE(watch.check()) << "it is back";
  move("vault", "moved");
  make("vault");
  EXPECT_TRUE(watch.check()) << "another vault is none of its business";
}

}  // namespace
}  // namespace s3oram
