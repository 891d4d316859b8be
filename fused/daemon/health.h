// What is wrong with a mounted vault, in words: a pure function of its state.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "fused/files/file_system.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// Everything that is known of a mounted vault at one moment.
struct MountState {
  VolumeStatus volume;
  FileSystemStatus files;
  Room room;
  std::uint32_t block_size = 0;
  std::uint64_t free_bytes = 0;  // for which there is, or may be, room
};

double seconds(std::chrono::milliseconds duration);

/// Problems, the gravest first; none: healthy. What passes by itself within seconds, as an eviction
/// under way, is none.
std::vector<std::string> problems(const MountState& state);

}  // namespace s3oram
