// Reads everything that a file system shows.
#pragma once

#include "fused/files/file_system.h"
#include "tests/fused/sim/tree.h"

namespace s3oram::sim {

struct Observed {
  Names names;
  std::map<Ino, Content> files;
};

/// Walks the whole tree and reads everything. Throws a Violation if the tree contradicts itself.
/// Leaves no reference to any inode behind.
Observed observe(FileSystem& fs, std::uint32_t block_size);

}  // namespace s3oram::sim
