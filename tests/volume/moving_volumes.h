// Volumes between which the tests move vaults.
#pragma once

#include "oramcore/vault/vault.h"

namespace s3oram::test {

inline constexpr std::uint32_t kBlock = 4096;
inline const VolumeParams kMatrix{
    .scheme = {1, 3}, .block_size = kBlock, .bucket_size = 12, .evict_every = 4};
inline const VolumeParams kRing{.scheme = {0, 1},
                                .block_size = kBlock,
                                .bucket_size = 4,
                                .evict_every = 3,
                                .evictor = Evictor::polynomial,
                                .privacy = Privacy::computational,
                                .first_height = 1,
                                .top_levels = 1};

/// Returns the configuration of a local volume. Each byte of its id is `number`.
inline VaultConfig local_config(const VolumeParams& params, std::uint8_t number) {
  VaultConfig config;
  config.volume.fill(number);
  config.params = params;
  config.local = true;
  config.servers.resize(params.scheme.servers);
  return config;
}

}  // namespace s3oram::test
