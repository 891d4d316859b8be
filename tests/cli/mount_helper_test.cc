// Tests the translation of the arguments and exit codes of mount(8) and umount(8).
#include "cli/mount_helper.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

TEST(MountArguments, BecomeTheDaemons) {
  EXPECT_EQ(mount_arguments({"/v", "/m"}).value(), (Args{"--", "/v", "/m"}));
  EXPECT_EQ(mount_arguments({"/v", "/m", "-o", "ro,cache=8"}).value(),
            (Args{"-o", "ro,cache=8", "--", "/v", "/m"}));
  EXPECT_EQ(
      mount_arguments({"-sfnv", "/v", "/m", "-t", "fuse.s3oramfs", "-oro", "-o", "rw"}).value(),
      (Args{"--sloppy", "--fake", "-o", "ro,rw", "--", "/v", "/m"}));
  EXPECT_EQ(mount_arguments({"/v", "/m", "-fo", "ro"}).value(),
            (Args{"--fake", "-o", "ro", "--", "/v", "/m"}));
}

TEST(MountArguments, OthersAreRefused) {
  for (const Args& args : {Args{}, Args{"/v"}, Args{"/v", "/m", "/x"}, Args{"/v", "/m", "-x"},
                           Args{"/v", "/m", "-o"}, Args{"/v", "/m", "-N", "/proc/1/ns/mnt"}}) {
    const auto words = mount_arguments(args);
    ASSERT_FALSE(words);
    EXPECT_EQ(words.error().code, Errc::usage);
  }
}

TEST(UmountArguments, BecomeThoseOfOurUmount) {
  EXPECT_EQ(umount_arguments({"/m"}).value(), (Args{"--", "/m"}));
  EXPECT_EQ(umount_arguments({"/m", "-nv", "-l", "-t", "fuse.s3oramfs"}).value(),
            (Args{"--lazy", "--", "/m"}));
  EXPECT_EQ(umount_arguments({"-fl", "/m"}).value(), (Args{"--force", "--lazy", "--", "/m"}));
  for (const Args& args : {Args{}, Args{"/a", "/b"}, Args{"-r", "/m"}, Args{"-o", "x", "/m"}})
    EXPECT_EQ(umount_arguments(args).error().code, Errc::usage);
}

TEST(HelperRole, ComesFromTheProgramsName) {
  EXPECT_EQ(helper_role("/sbin/mount.s3oramfs"), HelperRole::mount);
  EXPECT_EQ(helper_role("mount.fuse.s3oramfs"), HelperRole::mount);
  EXPECT_EQ(helper_role("/sbin/umount.fuse.s3oramfs"), HelperRole::umount);
  for (const char* name : {"", "/", "s3oramfs", "/usr/bin/s3oramfs", "/mount.s3oramfs/x"})
    EXPECT_EQ(helper_role(name), HelperRole::none) << name;
}

TEST(MountExitCode, IsMountsOwn) {
  EXPECT_EQ(mount_exit_code(0), 0);
  EXPECT_EQ(mount_exit_code(static_cast<int>(Errc::usage)), 1);
  for (const Errc code : {Errc::failed, Errc::vault_in_use, Errc::stale_vault})
    EXPECT_EQ(mount_exit_code(static_cast<int>(code)), 32);
}

}  // namespace
}  // namespace s3oram
