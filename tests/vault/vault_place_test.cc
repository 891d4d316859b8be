// Tests how root uses a vault in another user's directory, for which it becomes that user.
#include "oramcore/vault/vault_place.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "oramcore/base/durable_file.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kUser = 65534;  // exists on every system

class VaultPlaceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    fs::create_directory(vault_);
    ASSERT_EQ(::chmod(vault_.c_str(), 0700), 0);
    file("vault.json");
    file("vault.key");
    directory("run");
    directory("servers");
    directory("servers/1");
    file("servers/1/slots");
  }
  fs::path file(const std::string& name) {
    std::ofstream(vault_ / name) << "content";
    return vault_ / name;
  }
  fs::path directory(const std::string& name) {
    fs::create_directory(vault_ / name);
    EXPECT_EQ(::chmod((vault_ / name).c_str(), 0700), 0);
    return vault_ / name;
  }
  static void give(const fs::path& path, uid_t user) {
    EXPECT_EQ(::lchown(path.c_str(), user, user), 0);
  }
  /// Gives the vault and everything in it to the user.
  void give_all(uid_t user) {
    give(vault_, user);
    for (const auto& entry : fs::recursive_directory_iterator(vault_)) give(entry.path(), user);
  }
  Errc open_code() const {
    const auto place = VaultPlace::open(vault_);
    return place ? Errc::ok : place.error().code;
  }
  Errc files_code() const {
    const auto place = VaultPlace::open(vault_);
    if (!place) return place.error().code;
    const Status checked = place->check_files();
    return checked ? Errc::ok : checked.error().code;
  }
  TemporaryDirectory root_;
  const fs::path vault_ = root_ / "v";
};

TEST_F(VaultPlaceTest, OfRootsOwnRootStaysRoot) {
  const auto place = VaultPlace::open(vault_);
  ASSERT_GOOD(place);
  EXPECT_FALSE(place->owner());
  EXPECT_EQ(place->path(), fs::canonical(vault_));
  EXPECT_TRUE(place->check_files());
}

TEST_F(VaultPlaceTest, OfAnotherUsersRootBecomesThatUser) {
  give_all(kUser);
  const auto place = VaultPlace::open(vault_);
  ASSERT_GOOD(place);
  ASSERT_TRUE(place->owner());
  EXPECT_EQ(place->owner()->uid, kUser);
  EXPECT_EQ(place->owner()->name, "nobody");
  EXPECT_TRUE(place->check_files());
}

TEST_F(VaultPlaceTest, WhatIsSharedIsRefused) {
  for (const mode_t mode : {01777, 0777, 0702, 01770, 0720}) {
    ASSERT_EQ(::chown(vault_.c_str(), 0, kUser), 0);
    ASSERT_EQ(::chmod(vault_.c_str(), mode), 0);
    EXPECT_EQ(open_code(), Errc::unsupported) << std::oct << mode;
  }
  ASSERT_EQ(::chmod(vault_.c_str(), 0755), 0);
  EXPECT_EQ(open_code(), Errc::ok) << "others may look, but not write";
}

TEST_F(VaultPlaceTest, RootsVaultInAUsersDirectoryIsRefused) {
  give(root_.path(), kUser);
  const auto place = VaultPlace::open(vault_);
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().code, Errc::unsupported);
  EXPECT_NE(place.error().message.find("user 65534 could put another directory in its place"),
            std::string::npos)
      << place.error().message;
  give_all(kUser);
  EXPECT_EQ(open_code(), Errc::ok) << "then it is the user's own affair";
  give(root_.path(), 0);
}

TEST_F(VaultPlaceTest, AllFilesMustBeOneUsers) {
  for (const char* name : {"vault.json", "run", "servers/1", "servers/1/slots"}) {
    give(vault_ / name, kUser);
    EXPECT_EQ(files_code(), Errc::unsupported) << name;
    give_all(kUser);
    give(vault_ / name, 0);
    EXPECT_EQ(files_code(), Errc::unsupported) << "the user's, but for " << name;
    give_all(0);
    EXPECT_EQ(files_code(), Errc::ok);
  }
}

TEST_F(VaultPlaceTest, ALinkAndWhatItLeadsToAreTheOwnersToo) {
  const fs::path disk = root_ / "disk";
  fs::create_directory(disk);
  fs::remove_all(vault_ / "servers/1");
  fs::create_directory_symlink(disk, vault_ / "servers/1");
  EXPECT_EQ(files_code(), Errc::ok) << "a server on a disk of its own";
  give(disk, kUser);
  EXPECT_EQ(files_code(), Errc::unsupported);
  give(disk, 0);
  give(vault_ / "servers/1", kUser);
  EXPECT_EQ(files_code(), Errc::unsupported);
  give(vault_ / "servers/1", 0);
  ASSERT_EQ(::chmod(disk.c_str(), 01777), 0);
  EXPECT_EQ(files_code(), Errc::unsupported);
}

TEST_F(VaultPlaceTest, OnlyWhatAVaultHasIsInIt) {
  for (const auto& [type, name] : {std::pair(S_IFIFO, "pipe"), std::pair(S_IFCHR, "device")}) {
    const fs::path path = vault_ / "run" / name;
    if (::mknod(path.c_str(), type | 0600, 0) != 0) continue;  // devices may be forbidden
    EXPECT_EQ(files_code(), Errc::unsupported) << name;
    fs::remove(path);
  }
  EXPECT_EQ(files_code(), Errc::ok);
}

TEST_F(VaultPlaceTest, RootMakesVaultsWhereNobodyElseHasAHand) {
  EXPECT_TRUE(VaultPlace::check_new(root_ / "new"));
  EXPECT_TRUE(VaultPlace::check_new(vault_));
  give(vault_, kUser);
  EXPECT_EQ(VaultPlace::check_new(vault_).error().code, Errc::usage);
  EXPECT_EQ(VaultPlace::check_new(vault_ / "new").error().code, Errc::usage);
  give(vault_, 0);
  ASSERT_EQ(::chmod(vault_.c_str(), 0777), 0);
  EXPECT_EQ(VaultPlace::check_new(vault_ / "new").error().code, Errc::usage);
  EXPECT_TRUE(VaultPlace::check_new(vault_)) << "it is made private";
  ASSERT_EQ(::chmod(vault_.c_str(), 01777), 0);
  EXPECT_TRUE(VaultPlace::check_new(vault_ / "new")) << "as in /tmp";
}

TEST_F(VaultPlaceTest, WhatIsNoDirectoryIsNoVault) {
  EXPECT_EQ(VaultPlace::open(root_ / "missing").error().code, Errc::not_a_vault);
  EXPECT_EQ(VaultPlace::open(vault_ / "vault.json").error().code, Errc::not_a_vault);
}

}  // namespace
}  // namespace s3oram
