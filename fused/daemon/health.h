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

/// Something that is wrong.
struct Problem {
  /// Of which kind: the names that metrics and kProblemKinds have.
  const char* kind = "";
  Party server = kClient;  // kClient: none of them
  std::string text;        // for people
  /// The text without what changes from one moment to the next: for the log, once each.
  std::string cause;
};

/// All kinds that there are.
extern const std::vector<const char*> kProblemKinds;

/// The gravest first; none: healthy. A vault is healthy if a write that is begun now will become
/// durable, and a read have its data. What passes by itself within seconds, as an eviction under
/// way, is no problem.
std::vector<Problem> find_problems(const MountState& state);
/// Their texts.
std::vector<std::string> problems(const MountState& state);

}  // namespace s3oram
