// Tests how mounted vaults are found in the kernel's list of mounts.
#include "cli/mount_table.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

TEST(VaultMounts, TheNewestFirstWithoutEscapes) {
  const auto mounts = parse_vault_mounts(
      "22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
      "90 28 0:45 / /home/a/private rw,nosuid,nodev shared:1 master:2 - fuse.s3oramfs "
      "/home/a/private.vault rw,user_id=0\n"
      "91 28 0:46 / /mnt/with\\040blank\\134and\\011tab rw - fuse.s3oramfs /v\\040w rw\n"
      "92 28 0:47 / /mnt/other rw - fuse.sshfs /home/a/private.vault rw\n");
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_EQ(mounts[0], (VaultMount{"/mnt/with blank\\and\ttab", "/v w", 46, 91}));
  EXPECT_EQ(mounts[1], (VaultMount{"/home/a/private", "/home/a/private.vault", 45, 90}));
}

TEST(VaultMounts, HaveAUserWhoServesThem) {
  const auto mounts = parse_vault_mounts(
      "1 2 0:3 / /a rw - fuse.s3oramfs /v rw,user_id=1000,group_id=100,allow_other\n"
      "2 2 0:4 / /user_id=7 rw,user_id=8 - fuse.s3oramfs /user_id=9 rw\n");
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_EQ(mounts[1].user, 1000u);
  EXPECT_EQ(mounts[1].group, 100u);
  EXPECT_EQ(mounts[0].user, 0u);
}

TEST(VaultMounts, OnlyABlankDivides) {
  const auto mounts = parse_vault_mounts("1 2 3 / /a\rb\fc\vd rw - fuse.s3oramfs /v rw\n");
  ASSERT_EQ(mounts.size(), 1u);
  EXPECT_EQ(mounts[0], (VaultMount{"/a\rb\fc\vd", "/v", 3, 1}));
}

TEST(VaultMounts, IgnoresMalformedLines) {
  for (const char* text :
       {"", "\n\n", "1 2 3", "1 2 3 / / rw", "1 2 3 / / rw -", "1 2 3 / / rw - fuse.s3oramfs",
        "1 2 3 / / rw shared:1 fuse.s3oramfs x y", "- - - - - - - fuse.s3oramfs"})
    EXPECT_TRUE(parse_vault_mounts(text).empty()) << text;
}

TEST(VaultMounts, KeepsAnUnfinishedEscape) {
  const auto mounts = parse_vault_mounts("1 2 3 / /a\\04 rw - fuse.s3oramfs /v\\ rw\n");
  ASSERT_EQ(mounts.size(), 1u);
  EXPECT_EQ(mounts[0], (VaultMount{"/a\\04", "/v\\", 3, 1}));
}

TEST(FindMount, SaysWhatIsNotMounted) {
  auto mount = find_mount("/nowhere/at/all");
  ASSERT_FALSE(mount);
  EXPECT_EQ(mount.error().code, Errc::not_mounted);
  EXPECT_NE(mount.error().message.find("/nowhere/at/all"), std::string::npos);
}

}  // namespace
}  // namespace s3oram
