// The options with which a command of this program opens a volume.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/terminal.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// Adds --timeout, in seconds.
void add_timeout(CLI::App& app, int& seconds);

/// Returns the options, which `progress` must outlive. Errors: failed (the server program of a
/// local vault is missing).
Result<VolumeOptions> volume_options(const Vault& vault, int timeout_seconds, Progress& progress);

}  // namespace s3oram
