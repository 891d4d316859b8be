// Whether who asks is being killed.
#pragma once

#include <sys/types.h>

namespace s3oram {

/// Whether the thread, by its number in this process's /proc, has been killed and is not yet gone:
/// it waits for us, and will not run again. False if it cannot be seen.
bool is_killed(pid_t thread);

}  // namespace s3oram
