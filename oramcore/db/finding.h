// What a check of a vault finds, in words for its user.
#pragma once

#include <string>
#include <vector>

namespace s3oram {

struct Finding {
  std::string kind;         // a stable word for programs: "lost-data", "link-count", ...
  std::string where;        // a path in the mounted directory, or a file or table of the vault
  std::string what;         // what was found, and what it means for the user
  std::string repair;       // what a repair does about it; empty: nothing can be done here
  bool harmless = false;    // not damage: a crash leaves it, and the next mount tidies it up
  bool at_servers = false;  // what the vault's own files say of it is right

  bool mendable() const { return !repair.empty(); }
};
using Findings = std::vector<Finding>;

/// The advice where no repair helps.
inline constexpr const char* kMakeAnew =
    "have s3oramfs restore make vault.db anew from what the servers hold, or bring back a copy "
    "that is not older than its last use";

}  // namespace s3oram
