// A row of table `marks`: the servers' marks of one bucket (share_mark.h), made by the eviction
// that wrote it last. After that eviction the bucket's content can only be copied by reference,
// when the tree grows.
#pragma once

#include <optional>
#include <vector>

#include "oramcore/oram/geometry.h"
#include "oramcore/sharing/share_mark.h"

namespace s3oram {

struct MarkRow {
  std::uint64_t eviction = 0;
  /// The height of that eviction's tree. If the bucket is a leaf of that tree, and the tree has
  /// grown since, the buckets below it have the same content until an eviction reaches them.
  unsigned height = 0;
  std::vector<std::optional<Mark>> marks;  // by server, from 1; empty if a server gave none

  /// Returns whether `bucket`, whose row this is, was a leaf when it was written.
  bool was_leaf(BucketIndex bucket) const { return level_of(bucket) >= height; }
  friend bool operator==(const MarkRow&, const MarkRow&) = default;
};

/// Encodes a row as the database keeps it (docs/formats.md), with a checksum.
Bytes encode_marks(BucketIndex bucket, const MarkRow& row);
/// Decodes a row. Returns std::nullopt if it is not a row of this bucket.
std::optional<MarkRow> decode_marks(BucketIndex bucket, ByteSpan bytes);

}  // namespace s3oram
