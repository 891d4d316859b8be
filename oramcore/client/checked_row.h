// The checksum at the end of a row that vault.db keeps of a bucket, in its tables `buckets` and
// `marks` (docs/formats.md). It also covers the bucket's number, so that no row passes for that of
// another bucket.
#pragma once

#include <optional>

#include "oramcore/base/bytes.h"
#include "oramcore/oram/geometry.h"

namespace s3oram {

/// Returns the row with its checksum behind it.
Bytes with_checksum(BucketIndex bucket, Bytes row);
/// Returns the row without its checksum; std::nullopt if the checksum is not that of this row of
/// this bucket.
std::optional<ByteSpan> without_checksum(BucketIndex bucket, ByteSpan bytes);

}  // namespace s3oram
