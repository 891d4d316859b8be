// Findings of a check of a vault, as texts for its user.
#pragma once

#include <string>
#include <vector>

namespace s3oram {

struct Finding {
  std::string kind;         // a stable word for programs: "lost-data", "link-count", ...
  std::string where;        // a path in the mounted directory, or a file or table of the vault
  std::string what;         // what was found, and what it means for the user
  std::string repair;       // what a repair does about it; empty if fsck cannot repair it
  bool harmless = false;    // no damage: left by a crash, and cleaned up by the next mount
  bool at_servers = false;  // the damage is at the servers; the vault's own files are sound

  bool mendable() const { return !repair.empty(); }
};
using Findings = std::vector<Finding>;

/// The advice for damage that no repair can undo.
inline constexpr const char* kMakeAnew =
    "have s3oramfs restore --force rebuild vault.db from what the servers hold, or bring back a "
    "copy "
    "that is not older than its last use";

}  // namespace s3oram
