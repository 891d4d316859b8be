// Fits a mount into the resources that its process may use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fused/daemon/background.h"
#include "fused/files/file_system.h"
#include "fused/options/options.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Returns the bytes of the cache of file contents.
std::size_t cache_of(const MountCommand& command);

/// Returns the largest request: smaller if there is little memory, because dozens are under way.
unsigned largest_request(std::uint64_t usable);

/// Checks the limits of resources, and warns of those that the mount will feel. The log of vault.db
/// must hold a whole commit. Errors: unsupported.
Status check_limits_of(const MountCommand& command, const Vault& vault, const Background& waiting);

/// Lowers the bounds of names and attributes in memory if there is little memory.
void fit_into_memory(std::uint64_t usable, FileSystemOptions& options);

}  // namespace s3oram
