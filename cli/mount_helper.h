// What mount(8) and umount(8) run: mount.s3oramfs and umount.fuse.s3oramfs are this program by
// other names. They are called as
//   mount.s3oramfs SPEC DIRECTORY [-sfnv] [-N namespace] [-o options] [-t type]
//   umount.fuse.s3oramfs DIRECTORY [-flnrv] [-N namespace] [-t type]
#pragma once

#include <string_view>

#include "cli/command.h"

namespace s3oram {

/// The daemon's arguments for those of mount(8). Errors: usage.
Result<Args> mount_arguments(const Args& args);
/// The arguments of `s3oramfs umount` for those of umount(8). Errors: usage.
Result<Args> umount_arguments(const Args& args);

/// Runs the daemon and gives the code it ends with.
Result<int> run_mount_helper(const Args& args);

/// What the program that was called by this path is to mount(8) and umount(8).
enum class HelperRole { none, mount, umount };
HelperRole helper_role(std::string_view program);

/// mount(8)'s exit code for one of ours: 1 wrong arguments, 32 failure.
int mount_exit_code(int code);

}  // namespace s3oram
