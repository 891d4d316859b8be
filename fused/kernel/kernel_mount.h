// Mounts as root, by descriptors, so that the mount point is the directory that was checked, even
// if its name means another one by now. Other users mount through fusermount3 (fuse_mount.h).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/directory.h"
#include "oramcore/base/error.h"

namespace s3oram {

struct KernelMountOptions {
  std::string source;                // shown as the device of the mount
  std::vector<std::string> options;  // "ro", "allow_other", "nodev", ...
  uid_t uid = 0;                     // the user who serves it and may use it
  gid_t gid = 0;
};

/// The descriptors with which a daemon serves a mount.
struct KernelMount {
  Descriptor device;  // the open /dev/fuse
  Descriptor abort;   // what Guard::abort_of() returned, or none
};

/// Returns whether files on a mount with these options could give rights: by the setuid bit, or as
/// devices.
bool gives_rights(const std::vector<std::string>& options);

/// Checks that root may mount the vault of `uid` at this directory, which must belong to root or to
/// that user. Errors: bad_mount_point.
Status check_mount_owner(const DirectoryHandle& point, uid_t uid);

/// Mounts at the descriptor of `point`. Errors: bad_mount_point.
Result<KernelMount> mount_by_descriptor(const DirectoryHandle& point,
                                        const KernelMountOptions& options);

/// Unmounts what mount_by_descriptor() has mounted at `point`, lazily if it is busy. Call it after
/// closing the device. Uses fusermount3 unless it runs as root. Errors: failed.
Status unmount(const std::filesystem::path& point);

}  // namespace s3oram
