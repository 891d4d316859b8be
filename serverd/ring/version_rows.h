// The rows of bucket versions on disk: Z rows as the client made them, and behind them their sum,
// from which any one of them that is damaged is rebuilt: without it one bad sector would cost every
// block of a bucket.
//
// Thread-safe, as BucketStore is: called from the pools.
#pragma once

#include <memory>

#include "oramcore/schemes/ring/protocol/messages.h"
#include "serverd/ring/patience.h"
#include "serverd/store/bucket_store.h"

namespace s3oram::ring {

class VersionRows {
 public:
  /// `store` has frames of rows + 1 slots.
  VersionRows(BucketStore& store, Clock& clock, std::size_t rows, std::size_t row_size)
      : store_(store), patience_(clock), rows_(rows), row_size_(row_size) {}

  /// Returns the rows of a version, each checked. A damaged one is rebuilt first. Errors: corrupt
  /// (more than one is damaged), failed (more than one cannot be read, which may pass).
  Result<std::shared_ptr<const BucketVersion>> read(const BucketVersionRef& ref, unsigned level);

  /// Rebuilds what read() would rebuild, after a look at the disk itself; not yet durable. A row
  /// that cannot be read counts as damaged.
  Result<CheckAnswer> check(const BucketVersionRef& ref);

  /// Writes a version whose first rows are in `content`, with their sum; not yet durable.
  Status write(BucketVersionNumber version, std::shared_ptr<BucketVersion> content,
               VersionStamp stamp, unsigned level);

 private:
  /// A version as the disk has it, row by row.
  struct Rows {
    std::shared_ptr<BucketVersion> content;
    std::vector<std::uint16_t> damaged;
    std::vector<std::uint16_t> unreadable;
    std::size_t lost() const { return damaged.size() + unreadable.size(); }
  };
  Result<Rows> read_each(const BucketVersionRef& ref);
  /// Rebuilds the only row that is lost. Returns whether it is on the disk again.
  bool rebuild(const BucketVersionRef& ref, Rows& rows);

  BucketStore& store_;
  Patience patience_;  // with bucket versions
  const std::size_t rows_, row_size_;
};

}  // namespace s3oram::ring
