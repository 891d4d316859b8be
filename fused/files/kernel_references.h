// The inodes of a mounted file system to which the kernel refers. A mount outlives its file system
// while it is locked (fused/daemon/locked_mount.h), and the next one must know these inodes.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "fused/tables/rows.h"

namespace s3oram {

struct KernelReferences {
  std::unordered_map<Ino, std::uint64_t> counts;  // see FileSystem::forget()
  std::vector<Ino> unnamed;  // files that were created without a name, and may still get one
};

}  // namespace s3oram
