// User and group ids of a daemon that runs in a user namespace (a rootless container, unshare -Ur).
//
// There the kernel tells ids as the namespace has them: its root may be user 1000 outside. The
// tables hold ids as they are outside, in the namespace that ours was made in, so that the owner's
// files are the owner's on both sides, as on the machine's own file systems.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "fused/cache/posix.h"

namespace s3oram {

/// What the kernel takes for an id that its namespace lacks: it shows the overflow id for it, and
/// lets nobody write the file.
inline constexpr std::uint32_t kNoId = ~std::uint32_t{0};

/// Of users, or of groups.
class IdMap {
 public:
  /// Every id stays as it is.
  IdMap() = default;
  /// The text of a /proc/PID/uid_map. Malformed lines are left out.
  explicit IdMap(std::string_view text);

  /// kNoId if there is none on the other side.
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

  /// Those of the user namespace of this process. Every id stays as it is if there are none.
  static IdMaps of_this_process();

  /// What the kernel is told.
  struct stat inside(struct stat attributes) const;
  bool are_identity() const { return users.is_identity() && groups.is_identity(); }
};

}  // namespace s3oram
