// Checks mount points, and clears dead mounts away.
#pragma once

#include <filesystem>

#include "oramcore/base/directory.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Checks that this user may use FUSE mounts at all. Errors: unsupported (says what is missing, and
/// what to do).
Status check_fuse();

/// Checks that the vault can be mounted at `mountpoint`. Both paths are absolute. Errors:
/// bad_mount_point.
Status check_mountpoint(const std::filesystem::path& mountpoint,
                        const std::filesystem::path& vault);

/// Checks that the directory is empty, because a mount would hide its files. Not called with
/// -o nonempty. Errors: bad_mount_point.
Status check_hides_nothing(const std::filesystem::path& mountpoint);

/// Unmounts a mount whose daemon has ended without unmounting it, so that fstab or an automount
/// unit can mount again without help. Does nothing if there is no such mount. Errors:
/// bad_mount_point (some process still uses it; the message names the process).
Status clear_dead_mount(const std::filesystem::path& mountpoint);

/// Unmounts this process's own mount. Returns false, and does nothing, if a process has files open
/// in the mount, or its working directory. Errors: bad_mount_point.
Result<bool> unmount_if_unused(const std::filesystem::path& mountpoint);

/// Checks that this very directory is empty, before root mounts another user's vault there. Errors:
/// bad_mount_point.
Status check_empty(const DirectoryHandle& mountpoint);

/// Makes root's `umount DIRECTORY` call umount.fuse.s3oramfs, if it is installed. For root,
/// umount(8) learns only the type "fuse" from the kernel, for which there is no helper; but it
/// first looks into /run/mount/utab, which mount(8) writes. Does nothing for other users, who get
/// the helper in any case. Both paths are as the kernel lists them. Errors: failed.
Status note_umount_helper(const std::filesystem::path& vault,
                          const std::filesystem::path& mountpoint);

}  // namespace s3oram
