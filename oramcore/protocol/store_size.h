// How much of a disk the parts of a volume take, as arithmetic on its numbers.
#pragma once

#include <cstdint>

#include "oramcore/protocol/params.h"

namespace s3oram {

/// Frames (bucket versions) of a server's store with a tree of this height: those of all buckets,
/// and of the two paths that evictions write meanwhile.
std::uint64_t bucket_versions_needed(const VolumeParams& params, unsigned height);

/// Bytes that such a store takes in all: its slots, its database, and what is kept back for it.
std::uint64_t store_bytes(const VolumeParams& params, unsigned height);

/// Bytes that a new vault takes without its servers' stores.
constexpr std::uint64_t kNewVaultBytes = 10 << 20;
/// Files and directories of it, and of a store.
constexpr std::uint64_t kNewVaultFiles = 12, kStoreFiles = 8;

/// Kept back for a server's database, and for the client's (Rule::ballast).
constexpr std::uint64_t kServerBallast = 4 << 20, kClientBallast = 8 << 20;

}  // namespace s3oram
