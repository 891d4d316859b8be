// Root's own way to mount: by descriptors, so that the mount point is the directory that was
// checked, whatever its name means by then. Other users mount by fusermount3 (fuse_mount.h).
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
  std::string source;                // shown as the mounted thing
  std::vector<std::string> options;  // "ro", "allow_other", "nodev", ...
  uid_t uid = 0;                     // who may use it, and serves it
  gid_t gid = 0;
};

/// What a mount consists of for the daemon that serves it.
struct KernelMount {
  Descriptor device;  // the open /dev/fuse
  Descriptor abort;   // as Guard::abort_of() gives it, or none
};

/// Whether files on such a mount could give rights: by the setuid bit, or as devices.
bool gives_rights(const std::vector<std::string>& options);

/// Whether root may mount `uid`'s vault at this directory: it must be root's or that user's.
/// Errors: bad_mount_point.
Status check_mount_owner(const DirectoryHandle& point, uid_t uid);

/// Mounts at `point`, of which nothing but its descriptor counts. Errors: bad_mount_point.
Result<KernelMount> mount_by_descriptor(const DirectoryHandle& point,
                                        const KernelMountOptions& options);

/// Unmounts what mount_by_descriptor() has mounted at `point`, lazily where it is busy, and after
/// the device is closed: for root by root, and else by fusermount3. Errors: failed.
Status unmount(const std::filesystem::path& point);

}  // namespace s3oram
