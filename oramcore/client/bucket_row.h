// A row of table `buckets`: what an eviction put into a bucket. Such a row says where on its path a
// block lies; the block's own row in `positions` says which path that is. So an eviction changes a
// row for each bucket of its path, and none for each of their blocks.
#pragma once

#include <optional>

#include "oramcore/base/bytes.h"
#include "oramcore/protocol/plan.h"

namespace s3oram {

struct BucketRow {
  /// The bucket is a leaf. If the tree grows afterwards, each of these blocks lies in the same slot
  /// of the leaf bucket of its own path.
  bool at_leaf = false;
  /// Without their leaves. A block counts only while it has this version.
  BucketContents blocks;
};

/// As the database keeps it (docs/formats.md), with a checksum.
Bytes encode_row(BucketIndex bucket, const BucketRow& row);
/// Nothing if it is not a row of this bucket.
std::optional<BucketRow> decode_row(BucketIndex bucket, ByteSpan bytes);

}  // namespace s3oram
