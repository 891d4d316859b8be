// Table `marks` of vault.db: the marks of each bucket that an eviction has written since the volume
// keeps marks. A mark belongs to a bucket's stored content: when the tree grows, and a leaf's
// content becomes, by reference, that of the buckets below it, the leaf's row stands for all of
// them. Before an eviction replaces it, the row is copied to those that have none.
//
// No row means that nothing is known. That is always safe: a repair then says what it could not
// prove.
#pragma once

#include <functional>

#include "oramcore/client/mark_row.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

/// One thread at a time. The database must outlive it.
class MarkTable {
 public:
  static constexpr auto kCreate =
      "CREATE TABLE IF NOT EXISTS marks (bucket INTEGER PRIMARY KEY, marks BLOB NOT NULL);";

  /// The table must exist.
  Status open(Database& database);

  /// Returns the row that holds for a bucket in a tree of this height: its own, or that of the leaf
  /// whose content it has got; std::nullopt if there is none, or if the bucket is empty since the
  /// tree grew.
  Result<std::optional<MarkRow>> find(BucketIndex bucket, unsigned height);
  /// Must be called in a transaction, like erase().
  Status put(BucketIndex bucket, const MarkRow& row);
  /// Erases the row that holds for a bucket, with all rows of buckets that have the same content.
  Status erase(BucketIndex bucket, unsigned height);

 private:
  /// The row that holds for some bucket, and the bucket whose own it is; 0 if there is none.
  struct Found {
    BucketIndex bucket = 0;
    MarkRow row;
  };
  Result<std::optional<MarkRow>> own(BucketIndex bucket);
  Result<Found> find_row(BucketIndex bucket, unsigned height);

  Statement get_, put_, keep_, erase_;
};

}  // namespace s3oram
