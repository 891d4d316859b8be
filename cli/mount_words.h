// Finds out what the user wants mounted, from the command line, the environment, and the files of
// named mounts. Where they contradict each other, the source that is named first here counts.
#pragma once

#include "cli/command.h"

namespace s3oram {

/// Turns the arguments of `s3oramfs mount` into the daemon's, with the vault and the directory as
/// paths. Errors: usage (lists the known names, or says which file or variable is wrong),
/// not_a_vault (there is no such name).
Result<Args> mount_words(const Args& args);

}  // namespace s3oram
