// The mark of a bucket: 16 bytes that a server computes over its shares when an eviction has
// written them, under a key that only it and the client know (docs/protocol.md, "Share marks").
// A change of a share that is made without the key leaves the mark as it is with probability
// 2^-128, whatever the share was.
#pragma once

#include <array>
#include <span>

#include "oramcore/sharing/hop_digest.h"

namespace s3oram {

using Mark = std::array<std::uint8_t, 16>;

/// Computes marks under one key. After construction any thread may use it.
class ShareMark {
 public:
  /// `slot_size` is the size of a share.
  ShareMark(const Seed& key, std::size_t slot_size);

  /// Returns the mark of a bucket with these shares, one for each slot; a null pointer is a share
  /// of zeros.
  Mark of(std::span<const std::uint8_t* const> shares) const;

 private:
  HopDigest digest_;
};

}  // namespace s3oram
