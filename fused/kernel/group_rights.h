// Finds out whether the process that sent a request may give files a set-group-id bit.
#pragma once

#include <sys/types.h>

namespace s3oram {

/// Returns whether the process (or thread), given by its number in /proc, is a supplementary member
/// of the group, or has the capability CAP_FSETID. Returns false if the process cannot be seen.
bool may_set_group_id(pid_t process, gid_t group);

}  // namespace s3oram
