// Makes a bucket version's rows from sealed blocks, and recovers the blocks from the rows.
#pragma once

#include <vector>

#include "oramcore/base/error.h"
#include "oramcore/schemes/ring/client/row_tags.h"
#include "oramcore/schemes/ring/protocol/ring_params.h"

namespace s3oram::ring {

/// Thread-safe after construction.
class BucketCodec {
 public:
  /// `key` must not be used for anything else.
  BucketCodec(const Params& params, const Seed& key);

  const Params& params() const { return params_; }
  Points points(BucketIndex bucket, VersionStamp stamp) const {
    return {points_key_, bucket, stamp};
  }

  /// Returns the Z rows for Z sealed blocks, each with its tag, one after another; sealed[i] lies
  /// at the i-th point.
  Bytes encode(BucketIndex bucket, VersionStamp stamp, std::span<const Bytes> sealed) const;

  /// Returns the content of the Z slots. Errors: corrupt (the rows are not those of this version).
  Result<std::vector<Bytes>> decode(BucketIndex bucket, VersionStamp stamp, ByteSpan rows) const;

  /// Returns whether `answer` is P(x) of this version, with its tag.
  bool fits(BucketIndex bucket, VersionStamp stamp, Point x, ByteSpan answer) const {
    return tags_.fits(bucket, stamp, x, params_.bucket_size, answer);
  }

 private:
  const Params params_;
  const Seed points_key_;
  const RowTags tags_;
};

}  // namespace s3oram::ring
