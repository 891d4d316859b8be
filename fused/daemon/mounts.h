// Whether a vault may be mounted somewhere.
#pragma once

#include <filesystem>

#include "oramcore/base/directory.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Both paths absolute. Errors: bad_mount_point.
Status check_mountpoint(const std::filesystem::path& mountpoint,
                        const std::filesystem::path& vault);

/// Unless -o nonempty is given: what is there would be hidden. Errors: bad_mount_point.
Status check_hides_nothing(const std::filesystem::path& mountpoint);

/// Takes a mount away whose daemon has ended without unmounting it, so that what fstab or an
/// automount unit mounts again needs nobody's help. Does nothing if there is no such mount. Errors:
/// bad_mount_point (something uses it still; says who).
Status clear_dead_mount(const std::filesystem::path& mountpoint);

/// Before root mounts for somebody else at this very directory. Errors: bad_mount_point (it is not
/// empty).
Status check_empty(const DirectoryHandle& mountpoint);

/// Has root's `umount DIRECTORY` call umount.fuse.s3oramfs, if it is installed: umount(8) asks the
/// kernel for no more than "fuse" where it can, and finds no helper by that; but it looks first at
/// its own notes in /run/mount/utab, which mount(8) writes. Does nothing for others than root: they
/// get the helper without it. Both paths as the kernel lists them. Errors: failed.
Status note_umount_helper(const std::filesystem::path& vault,
                          const std::filesystem::path& mountpoint);

}  // namespace s3oram
