// Requests of the kernel, through libfuse's low-level interface, as calls of FileSystem.
//
// What is left to the kernel: permission checks (default_permissions), locks (one client),
// O_APPEND, the page cache with size and times of files being written (write-back cache), clearing
// set-id bits on write, truncate and chown (it sends a mode), and "." and "..".
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

namespace s3oram {

/// The table for fuse_session_new(); its user data is the FileSystem.
const fuse_lowlevel_ops& fuse_ops();

}  // namespace s3oram
