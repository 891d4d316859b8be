// Converts slot addresses: the client counts the root's stash among the root's slots, but a server
// keeps it in buckets of its own.
#pragma once

#include "oramcore/protocol/messages.h"
#include "serverd/oram/store_database.h"

namespace s3oram {

/// Returns the client's address of a slot of a bucket.
inline SlotAddress address_of(const VolumeParams& params, BucketIndex bucket, std::uint16_t slot) {
  if (bucket < kStashBucket) return {bucket, slot};
  const std::size_t in_stash = (bucket - kStashBucket) * params.bucket_size + slot;
  return {kRoot, static_cast<std::uint16_t>(params.root_buffer_slots() + in_stash)};
}

}  // namespace s3oram
