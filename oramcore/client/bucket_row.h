// A row of table `buckets`: the blocks that an eviction put into a bucket. It says where on its
// path a block lies; the block's own row in `positions` says which path that is. So an eviction
// changes one row for each bucket of its path, and none for the blocks in them.
#pragma once

#include <optional>

#include "oramcore/base/bytes.h"
#include "oramcore/protocol/plan.h"

namespace s3oram {

struct BucketRow {
  /// The bucket is a leaf. If the tree grows afterwards, each of these blocks lies in the same slot
  /// of the leaf bucket on its own path.
  bool at_leaf = false;
  /// The blocks, without their leaves. A block counts only while it has this version.
  BucketContents blocks;
};

/// Encodes a row as the database keeps it (docs/formats.md), with a checksum.
Bytes encode_row(BucketIndex bucket, const BucketRow& row);
/// Decodes a row. Returns std::nullopt if it is not a row of this bucket.
std::optional<BucketRow> decode_row(BucketIndex bucket, ByteSpan bytes);

}  // namespace s3oram
