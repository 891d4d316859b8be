// Requests of the kernel, through libfuse's low-level interface, as calls of FileSystem.
//
// What is left to the kernel: permission checks (default_permissions), locks (one client),
// O_APPEND, the page cache with size and times of files being written (write-back cache), clearing
// set-id bits on write, truncate and chown (it sends a mode), and "." and "..".
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
  /// Nothing that is done after it waits for servers, but renames, which have the second one.
  std::unique_ptr<AfterWriteBack> after_write_back, before_rename;
  OpenWriters writers;
  IdMaps ids;  // between what the kernel and what the file system says
};

/// The name that a file is created by which is to have none: no name contains a slash.
inline constexpr std::string_view kUnnamed = "/";

/// Has libfuse take a request for one that it knows (libfuse 3.14): one for an unnamed file
/// (O_TMPFILE) is one to create a file, with this name. `request` is as the kernel sent it.
void adapt(fuse_buf& request);

/// The table for fuse_session_new(); its user data is a FuseContext.
const fuse_lowlevel_ops& fuse_ops();

}  // namespace s3oram
