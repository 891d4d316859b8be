// What a program notices of a file that it has open: lost, replaced, cut short, or only moved with
// the directories above it.
#include "oramcore/base/file_watch.h"

#include <gtest/gtest.h>

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
  /// A vault of that name, with the file of a store.
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

TEST_F(FileWatchTest, NoticesWhatHappensToTheFile) {
  const FileWatch watch(path("vault/store/file"));
  EXPECT_TRUE(watch.check());
  fs::resize_file(path("vault/store/file"), 3);
  expect_damaged(watch, "was cut short");
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
