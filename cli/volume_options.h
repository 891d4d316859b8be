// How a command of this program opens a volume.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/terminal.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// Adds --timeout, in seconds.
void add_timeout(CLI::App& app, int& seconds);

/// `progress` must outlive them. Errors: a program of a local vault's is not there.
Result<VolumeOptions> volume_options(const Vault& vault, int timeout_seconds, Progress& progress);

}  // namespace s3oram
