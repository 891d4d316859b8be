// Describes what is wrong with a mounted vault. This is a pure function of the vault's state.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "fused/daemon/migration_watch.h"
#include "fused/files/file_system.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// Everything that is known about a mounted vault at one moment.
struct MountState {
  VolumeStatus volume;
  FileSystemStatus files;
  Room room;
  std::uint32_t block_size = 0;
  std::uint64_t free_bytes = 0;  // as df shows it
  EndOfMigration migration_end;
};

double seconds(std::chrono::milliseconds duration);

/// Something that is wrong.
struct Problem {
  /// One of kProblemKinds, as in metrics.
  const char* kind = "";
  Party server = kClient;  // the server concerned; kClient if none
  std::string text;        // the message for people
  /// The text without figures that keep changing, so that the log reports each problem once.
  std::string cause;
  /// True if reads and writes still work, and writes still become durable.
  bool warning = false;
};

/// Every value that Problem::kind can have.
extern const std::vector<const char*> kProblemKinds;

/// Returns the problems, the gravest first, and then the warnings. Returns no problems if the vault
/// is healthy, which means that a write that begins now will become durable and that a read will
/// get its data. Conditions that pass within seconds, such as an eviction under way, are not
/// problems.
std::vector<Problem> find_problems(const MountState& state);
/// Returns the texts of the problems; warnings() returns those of the warnings.
std::vector<std::string> problems(const MountState& state);
std::vector<std::string> warnings(const MountState& state);

/// Adds the cause, if it is known, to the error of an attempt to make everything durable. Nothing
/// is promised if the volume cannot go on.
Error with_cause(Error unwritten, const MountState& state);

}  // namespace s3oram
