// The daemon's log: first on the terminal, then in a file.
#pragma once

#include <filesystem>

#include "fused/options/options.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Logs to standard error. Leaves out time, name and level if the daemon is going to the
/// background.
void log_to_terminal(const MountCommand& command);
/// Logs to `path`, which must be a regular file, because a link would lead elsewhere and a pipe
/// could block. Errors: failed.
Status log_to_file(const MountCommand& command, const std::filesystem::path& path);

}  // namespace s3oram
