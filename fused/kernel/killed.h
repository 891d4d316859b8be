// Finds out whether the thread that sent a request is being killed.
#pragma once

#include <sys/types.h>

namespace s3oram {

/// Returns whether the thread, given by its number in /proc, has been killed and has not ended yet:
/// it waits for our answer and will not run again. Returns false if the thread cannot be seen.
bool is_killed(pid_t thread);

}  // namespace s3oram
