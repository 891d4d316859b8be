// The rows of bucket versions on disk: Z rows as the client made them, and behind them their sum,
// from which any one of them that is damaged is rebuilt: without it one bad sector would cost every
// block of a bucket.
//
// Thread-safe, as BucketStore is: called from the pools.
#pragma once

#include <memory>

#include "oramcore/schemes/ring/protocol/messages.h"
#include "serverd/store/bucket_store.h"

namespace s3oram::ring {

class VersionRows {
 public:
  /// `store` has frames of rows + 1 slots.
  VersionRows(BucketStore& store, std::size_t rows, std::size_t row_size)
      : store_(store), rows_(rows), row_size_(row_size) {}

  /// The rows of a version, each checked; a damaged one is rebuilt first. Errors: corrupt (more
  /// than one is damaged), failed.
  Result<std::shared_ptr<const BucketVersion>> read(const BucketVersionRef& ref, unsigned level);

  /// What read() would rebuild, looked for on the disk itself.
  Result<CheckAnswer> check(const BucketVersionRef& ref);

  /// Writes a version whose first rows are in `content`, with their sum; not yet durable.
  Status write(BucketVersionNumber version, std::shared_ptr<BucketVersion> content,
               VersionStamp stamp, unsigned level);

 private:
  Result<CheckAnswer> rebuild(const BucketVersionRef& ref, const std::vector<std::uint16_t>& lost);

  BucketStore& store_;
  const std::size_t rows_, row_size_;
};

}  // namespace s3oram::ring
