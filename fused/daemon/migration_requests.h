// The control socket's requests about a migration.
#pragma once

#include <string>

#include "fused/daemon/watched.h"

namespace s3oram {

/// Returns whether the request is "migrate RATE" or "migrate-rate RATE".
bool is_about_migration(const std::string& request);

/// Begins a migration to the volume in next/, or changes the rate of the migration under way.
/// Returns the answer.
std::string answer_on_migration(const Watched& watched, const std::string& request);

/// Makes a backup of the names, for the control socket. Errors: unsupported (mounted read-only),
/// damaged_vault, failed.
Status back_up_names(FileSystem& files);

}  // namespace s3oram
