// The rows of bucket versions on disk: Z rows as the client made them, followed by their sum. From
// the sum any one damaged row is rebuilt; without it, one bad sector would cost every block of a
// bucket.
//
// Thread-safe, as BucketStore is, because it is called from the pools.
#pragma once

#include <memory>

#include "oramcore/schemes/ring/protocol/ring_messages.h"
#include "serverd/ring/patience.h"
#include "serverd/store/bucket_store.h"

namespace s3oram::ring {

class VersionRows {
 public:
  /// `store` has bucket versions of `rows` + 1 slots.
  VersionRows(BucketStore& store, Clock& clock, std::size_t rows, std::size_t row_size)
      : store_(store), patience_(clock), rows_(rows), row_size_(row_size) {}

  /// Returns the rows of a version, each checked. Rebuilds a damaged row first. Errors: corrupt
  /// (more than one row is damaged), failed (more than one row cannot be read, which may pass).
  Result<std::shared_ptr<const BucketVersion>> read(const BucketVersionRef& ref, unsigned level);

  /// Reads the rows from the disk itself, and rebuilds what read() would rebuild; not yet durable.
  /// A row that cannot be read counts as damaged.
  Result<CheckAnswer> check(const BucketVersionRef& ref);

  /// Writes a version whose first rows are in `content`, with their sum; not yet durable.
  Status write(BucketVersionNumber version, std::shared_ptr<BucketVersion> content,
               VersionStamp stamp, unsigned level);

 private:
  /// A version as it is on the disk, row by row.
  struct Rows {
    std::shared_ptr<BucketVersion> content;
    std::vector<std::uint16_t> damaged;
    std::vector<std::uint16_t> unreadable;
    std::size_t lost() const { return damaged.size() + unreadable.size(); }
  };
  Result<Rows> read_each(const BucketVersionRef& ref);
  /// Rebuilds the only lost row. Returns whether the row is on the disk again.
  bool rebuild(const BucketVersionRef& ref, Rows& rows);

  BucketStore& store_;
  Patience patience_;  // about bucket versions
  const std::size_t rows_, row_size_;
};

}  // namespace s3oram::ring
