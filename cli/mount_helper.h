// The programs that mount(8) and umount(8) run: mount.s3oramfs and umount.fuse.s3oramfs are this
// program under other names. They are called as
//   mount.s3oramfs SPEC DIRECTORY [-sfnv] [-N namespace] [-o options] [-t type]
//   umount.fuse.s3oramfs DIRECTORY [-flnrv] [-N namespace] [-t type]
#pragma once

#include <string_view>

#include "cli/command.h"

namespace s3oram {

/// Turns mount(8)'s arguments into the daemon's. Errors: usage.
Result<Args> mount_arguments(const Args& args);
/// Turns umount(8)'s arguments into those of `s3oramfs umount`. Errors: usage.
Result<Args> umount_arguments(const Args& args);

/// Runs the daemon, and returns its exit code.
Result<int> run_mount_helper(const Args& args);

/// The role of a program for mount(8) and umount(8), by the path under which it was called.
enum class HelperRole { none, mount, umount };
HelperRole helper_role(std::string_view program);

/// Turns one of our exit codes into mount(8)'s: 1 for wrong arguments, 32 for a failure.
int mount_exit_code(int code);

}  // namespace s3oram
