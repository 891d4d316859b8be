// Translates user and group ids for a daemon in a user namespace (a rootless container, unshare
// -Ur).
//
// In a namespace the kernel uses the namespace's ids: its root may be user 1000 outside. The tables
// hold the ids of the parent namespace, so that the owner's files belong to the owner on both
// sides, as on the machine's own file systems.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "fused/cache/posix.h"

namespace s3oram {

/// Stands for an id that the namespace lacks. For it, the kernel shows the overflow id and lets no
/// one write the file.
inline constexpr std::uint32_t kNoId = ~std::uint32_t{0};

/// The map of users, or of groups.
class IdMap {
 public:
  /// Makes the identity map.
  IdMap() = default;
  /// Parses the text of a /proc/PID/uid_map. Skips malformed lines.
  explicit IdMap(std::string_view text);

  /// Returns the id on the other side; kNoId if there is none.
  std::uint32_t inside(std::uint32_t outside) const;
  std::uint32_t outside(std::uint32_t inside) const;
  bool is_identity() const { return ranges_.empty(); }

 private:
  struct Range {
    std::uint32_t inside = 0, outside = 0, count = 0;
  };
  std::vector<Range> ranges_;
};

struct IdMaps {
  IdMap users, groups;

  /// Returns the maps of this process's user namespace; identities if there are none.
  static IdMaps of_this_process();

  /// Returns the attributes with the ids that the kernel expects.
  struct stat inside(struct stat attributes) const;
  bool are_identity() const { return users.is_identity() && groups.is_identity(); }
};

}  // namespace s3oram
