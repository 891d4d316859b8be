// Turns requests of the kernel, through libfuse's low-level interface, into calls of FileSystem.
//
// The kernel does: permission checks (default_permissions, by modes and ACLs), locks (there is one
// client), O_APPEND, the page cache with size and times of files being written (write-back cache),
// clearing set-id bits on write, truncate and chown (it sends a mode), and "." and "..".
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <atomic>
#include <memory>

#include "fused/files/file_system.h"
#include "fused/kernel/after_write_back.h"
#include "fused/kernel/id_map.h"
#include "fused/kernel/open_writers.h"

namespace s3oram {

/// The user data of the session.
struct FuseContext {
  FileSystem* files = nullptr;
  unsigned largest_request = 1u << 20;  // bytes
  fuse_session* session = nullptr;
  /// Renames may wait for servers, so they have an AfterWriteBack of their own.
  std::unique_ptr<AfterWriteBack> after_write_back, before_rename;
  OpenWriters writers;
  IdMaps ids;  // between the kernel's ids and the file system's
  /// The kernel may cache nothing more: it is refused attributes (FuseMount::withdraw()).
  std::atomic<bool> withdrawn = false;
  std::atomic<std::uint64_t> write_backs = 0;  // requests that brought dirty pages
};

/// The name in a request to create a file without a name. No real name contains a slash.
inline constexpr std::string_view kUnnamed = "/";

/// Changes a request that libfuse 3.14 does not know into one that it knows: a request for an
/// unnamed file (O_TMPFILE) into one to create a file named kUnnamed. `request` is as the kernel
/// sent it.
void adapt(fuse_buf& request);

/// Returns whether the request shows that somebody uses the mount. Monitors ask for its free space,
/// and the kernel forgets inodes by itself.
bool is_use(const fuse_buf& request);

/// The table for fuse_session_new(); its user data is a FuseContext.
const fuse_lowlevel_ops& fuse_ops();

}  // namespace s3oram
