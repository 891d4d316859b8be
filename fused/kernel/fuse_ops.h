// Turns requests of the kernel, through libfuse's low-level interface, into calls of FileSystem.
//
// The kernel itself handles permission checks (default_permissions, by modes and ACLs), locks
// (there is only one client), O_APPEND, the page cache with the size and times of files being
// written (write-back cache), the clearing of set-id bits on write, truncate and chown (it sends a
// mode), and "." and "..".
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
  /// Renames have an AfterWriteBack of their own, because they may wait for servers.
  std::unique_ptr<AfterWriteBack> after_write_back, before_rename;
  OpenWriters writers;
  IdMaps ids;  // map the kernel's ids to the file system's, and back
  /// True while the kernel may cache nothing more: its requests for attributes are refused
  /// (FuseMount::withdraw()).
  std::atomic<bool> withdrawn = false;
  std::atomic<std::uint64_t> write_backs = 0;  // requests that brought dirty pages
};

/// Stands for the name in a request to create a file without a name. No real name contains a slash.
inline constexpr std::string_view kUnnamed = "/";

/// Turns a request for an unnamed file (O_TMPFILE), which libfuse 3.14 does not know, into one to
/// create a file named kUnnamed. `request` is as the kernel sent it.
void adapt(fuse_buf& request);

/// Returns whether the request shows that the mount is in use. Some requests do not: monitors ask
/// for the free space, and the kernel forgets inodes by itself.
bool is_use(const fuse_buf& request);

/// The table for fuse_session_new(); its user data is a FuseContext.
const fuse_lowlevel_ops& fuse_ops();

}  // namespace s3oram
