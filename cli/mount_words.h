// What the user wants mounted, from the command line, the environment, and the files of named
// mounts; in this order, the first that says something counts.
#pragma once

#include "cli/command.h"

namespace s3oram {

/// Returns the daemon's arguments for those of `s3oramfs mount`: with the vault and the directory
/// as paths. Errors: usage (lists the names there are; names the file or the variable that is
/// wrong), not_a_vault (there is no such name).
Result<Args> mount_words(const Args& args);

}  // namespace s3oram
