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
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fused/file_system.h"

namespace s3oram {

/// An open directory: its entries as they were when it was read from the start.
struct OpenDirectory {
  std::mutex mutex;
  std::vector<DirectoryEntry> entries;
};

/// The user data of the session.
struct FuseContext {
  FileSystem* files = nullptr;
  fuse_session* session = nullptr;
  std::atomic<unsigned> seeking = 0;  // threads that wait for the kernel's dirty pages
  std::mutex mutex;                   // guards `directories`
  std::unordered_map<const OpenDirectory*, std::unique_ptr<OpenDirectory>> directories;
};

/// The table for fuse_session_new(); its user data is a FuseContext.
const fuse_lowlevel_ops& fuse_ops();

}  // namespace s3oram
