// Small volumes for tests, one for each evictor.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "oramcore/protocol/bounds.h"
#include "oramcore/protocol/params.h"

namespace s3oram::test {

constexpr std::uint32_t kBlockSize = 512;  // the same for all of these volumes

inline VolumeParams matrix_volume(std::uint16_t bucket_size, std::uint16_t evict_every,
                                  Scheme scheme = {1, 3}) {
  return {scheme, kBlockSize, bucket_size, evict_every};
}
inline VolumeParams shuffle_volume(std::uint16_t bucket_size, std::uint16_t evict_every,
                                   std::uint16_t stash_slots) {
  return {.scheme = {1, 3},
          .block_size = kBlockSize,
          .bucket_size = bucket_size,
          .evict_every = evict_every,
          .evictor = Evictor::shuffle,
          .stash_slots = stash_slots,
          .privacy = Privacy::computational,
          .security = Security::malicious};
}

inline VolumeParams mirror_volume(std::uint16_t bucket_size, std::uint16_t evict_every,
                                  std::uint16_t stash_slots, Scheme scheme = {1, 2}) {
  return {.scheme = scheme,
          .block_size = kBlockSize,
          .bucket_size = bucket_size,
          .evict_every = evict_every,
          .evictor = Evictor::selection,
          .stash_slots = stash_slots,
          .privacy = Privacy::computational};
}

/// Returns a volume in which nothing overflows, with three servers, or two for a mirror.
inline VolumeParams safe_volume(Evictor evictor, std::uint16_t evict_every) {
  if (evictor == Evictor::matrix) return matrix_volume(min_bucket_size(evict_every), evict_every);
  const auto bucket_size = static_cast<std::uint16_t>(2 * evict_every + 2);
  if (evictor == Evictor::selection)
    return mirror_volume(bucket_size, evict_every, min_stash_slots(bucket_size, evict_every));
  return shuffle_volume(bucket_size, evict_every, min_stash_slots(bucket_size, evict_every));
}

/// Runs a test with each evictor.
class EachEvictor : public testing::TestWithParam<Evictor> {};
inline std::string evictor_name(const testing::TestParamInfo<Evictor>& test) {
  return std::string(name_of(kEvictors, test.param));
}
#define S3O_WITH_EACH_EVICTOR(suite)                                                               \
  INSTANTIATE_TEST_SUITE_P(Evictors, suite,                                                        \
                           testing::Values(::s3oram::Evictor::matrix, ::s3oram::Evictor::shuffle), \
                           ::s3oram::test::evictor_name)

}  // namespace s3oram::test
