// Makes a bucket version's rows of sealed blocks, and finds the blocks in the rows again.
#pragma once

#include <vector>

#include "oramcore/base/error.h"
#include "oramcore/schemes/ring/client/row_tags.h"
#include "oramcore/schemes/ring/protocol/params.h"

namespace s3oram::ring {

/// Thread-safe once made.
class BucketCodec {
 public:
  /// `key` is used for nothing else.
  BucketCodec(const Params& params, const Seed& key);

  const Params& params() const { return params_; }
  Points points(BucketIndex bucket, VersionStamp stamp) const {
    return {points_key_, bucket, stamp};
  }

  /// The Z rows, each with its tag, one after the other: of the Z sealed blocks, sealed[i] lies at
  /// the i-th point.
  Bytes encode(BucketIndex bucket, VersionStamp stamp, std::span<const Bytes> sealed) const;

  /// What lies in the Z slots. Errors: corrupt (the rows are not those of this version).
  Result<std::vector<Bytes>> decode(BucketIndex bucket, VersionStamp stamp, ByteSpan rows) const;

  /// Whether `answer` is P(x) of this version, with its tag.
  bool fits(BucketIndex bucket, VersionStamp stamp, Point x, ByteSpan answer) const {
    return tags_.fits(bucket, stamp, x, params_.bucket_size, answer);
  }

 private:
  const Params params_;
  const Seed points_key_;
  const RowTags tags_;
};

}  // namespace s3oram::ring
