// Fits a mount to the resources that its process may use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fused/daemon/background.h"
#include "fused/files/file_system.h"
#include "fused/options/options.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Returns the size of the cache of file contents, in bytes.
std::size_t cache_of(const MountCommand& command);

/// Returns the size of the largest request, in bytes. It is smaller if there is little memory,
/// because dozens of requests are under way.
unsigned largest_request(std::uint64_t usable);

/// Checks the process's resource limits, and warns of those that will restrict the mount. The log
/// of vault.db must be able to hold a whole commit. Errors: unsupported.
Status check_limits_of(const MountCommand& command, const Vault& vault, const Background& waiting);

/// Lowers the bounds on names and attributes in memory if there is little memory.
void fit_into_memory(std::uint64_t usable, FileSystemOptions& options);

}  // namespace s3oram
