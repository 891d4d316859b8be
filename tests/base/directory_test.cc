// Tests how root opens directories by names that other users can change. (The test process stays
// root.)
#include "oramcore/base/directory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kUser = 1000, kOther = 1001;

class OpenDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  }
  fs::path path(const std::string& name) const { return root_.path() / name; }
  fs::path make(const std::string& name, uid_t owner, mode_t mode = 0755) const {
    fs::create_directory(path(name));
    EXPECT_EQ(::lchown(path(name).c_str(), owner, owner), 0);
    EXPECT_EQ(::chmod(path(name).c_str(), mode), 0);
    return path(name);
  }
  fs::path link(const std::string& name, const fs::path& to, uid_t owner) const {
    fs::create_symlink(to, path(name));
    EXPECT_EQ(::lchown(path(name).c_str(), owner, owner), 0);
    return path(name);
  }
  TemporaryDirectory root_;
};

TEST_F(OpenDirectoryTest, IsWhatItsNameLeadsTo) {
  const fs::path inner = make("a", 0) / "b";
  fs::create_directory(inner);
  for (const fs::path& name : {inner, path("a/./b/"), path("a/../a/b"), path("a/b/.")}) {
    const auto opened = open_directory(name);
    ASSERT_GOOD(opened);
    EXPECT_EQ(opened->path, fs::canonical(inner)) << name;
    EXPECT_TRUE(opened->is_all);
    EXPECT_TRUE(opened->exchangeable_in.empty()) << opened->exchangeable_in;
  }
}

TEST_F(OpenDirectoryTest, FollowsALinkOfRootsOrOfTheDirectorysOwner) {
  make("users", kUser);
  make("roots", 0);
  EXPECT_EQ(open_directory(link("by-root", "users", 0))->path, fs::canonical(path("users")));
  EXPECT_EQ(open_directory(link("by-user", path("users"), kUser))->path,
            fs::canonical(path("users")));
  EXPECT_TRUE(open_directory(link("to-a-link", "by-user", 0)));
  for (const auto& name : {link("to-roots", "roots", kUser), link("others", "users", kOther),
                           link("over-two", "to-roots", 0)}) {
    const auto opened = open_directory(name);
    ASSERT_FALSE(opened) << name;
    EXPECT_NE(opened.error().message.find("does not follow"), std::string::npos)
        << opened.error().message;
  }
}

TEST_F(OpenDirectoryTest, ALinkInTheMiddleOfTheWayCountsToo) {
  make("roots", 0);
  fs::create_directory(path("roots/inner"));
  link("jump", "roots", kUser);
  EXPECT_FALSE(open_directory(path("jump/inner")));
  EXPECT_FALSE(open_directory(path("jump/../roots/inner")));
}

TEST_F(OpenDirectoryTest, SaysWhereOthersCouldExchangeIt) {
  const auto exchangeable_in = [&](const fs::path& above) {
    fs::create_directory(above / "inner");
    return open_directory(above / "inner")->exchangeable_in;
  };
  const fs::path users = make("users", kUser), everyones = make("everyones", 0, 0777);
  EXPECT_EQ(exchangeable_in(users), fs::canonical(users));
  EXPECT_EQ(exchangeable_in(everyones), fs::canonical(everyones));
  EXPECT_EQ(exchangeable_in(make("sticky", 0, 01777)), "");
  EXPECT_EQ(exchangeable_in(make("roots", 0)), "");
}

TEST_F(OpenDirectoryTest, EndsWhereTheWayDoes) {
  make("a", 0);
  const auto nearest = open_nearest_directory(path("a/b/c"));
  ASSERT_GOOD(nearest);
  EXPECT_EQ(nearest->path, fs::canonical(path("a")));
  EXPECT_FALSE(nearest->is_all);
  EXPECT_FALSE(open_directory(path("a/b/c")));
  link("loop", "loop", 0);
  EXPECT_FALSE(open_directory(path("loop")));
  EXPECT_FALSE(open_nearest_directory(path("loop")));
}

// While a user keeps replacing a directory, opening it gives the user's directory or is refused; it
// never gives root's.
TEST_F(OpenDirectoryTest, ARaceLeadsNowhere) {
  make("users", kUser);
  make("roots", 0);
  link("name", "users", kUser);
  link("spare", "roots", kUser);
  std::atomic<bool> done = false;
  std::thread exchange([&] {
    while (!done)
      ::renameat2(AT_FDCWD, path("name").c_str(), AT_FDCWD, path("spare").c_str(), RENAME_EXCHANGE);
  });
  for (int i = 0; i < 2000; ++i) {
    const auto opened = open_directory(path("name"));
    EXPECT_TRUE(!opened || opened->status.st_uid == kUser);
  }
  done = true;
  exchange.join();
}

}  // namespace
}  // namespace s3oram
