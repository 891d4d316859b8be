// The room on disk that the parts of a volume take, computed from its numbers.
#pragma once

#include <cstdint>

#include "oramcore/protocol/params.h"

namespace s3oram {

/// Returns how many bucket versions a server's store holds with a tree of this height: one of each
/// bucket, and those of the two paths that evictions write at the same time.
std::uint64_t bucket_versions_needed(const VolumeParams& params, unsigned height);

/// Returns the total bytes of such a store: slots, database and ballast.
std::uint64_t store_bytes(const VolumeParams& params, unsigned height);

/// Bytes that a new vault takes, without its servers' stores.
constexpr std::uint64_t kNewVaultBytes = 10 << 20;
/// Number of files and directories in a new vault, and in a store.
constexpr std::uint64_t kNewVaultFiles = 12, kStoreFiles = 8;

/// Bytes kept back for a server's database, and for the client's (Rule::ballast).
constexpr std::uint64_t kServerBallast = 4 << 20, kClientBallast = 8 << 20;

}  // namespace s3oram
