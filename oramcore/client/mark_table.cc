// Reads and writes table `marks`.
#include "oramcore/client/mark_table.h"

#include "oramcore/protocol/layout.h"

namespace s3oram {
namespace {

std::int64_t key_of(BucketIndex bucket) { return static_cast<std::int64_t>(bucket); }

/// Calls each(bucket) for the buckets at `level` that lie below `top`; for `top` itself at its own.
template <class Each>
Status for_each_below(BucketIndex top, unsigned level, Each each) {
  const BucketIndex first = BucketIndex{1} << level;
  for (BucketIndex leaf = top ^ BucketIndex{1} << level_of(top); leaf < first;
       leaf += BucketIndex{1} << level_of(top))
    S3O_TRY(each(first | leaf));
  return {};
}

}  // namespace

Status MarkTable::open(Database& database) {
  S3O_ASSIGN(get_, database.prepare("SELECT marks FROM marks WHERE bucket = ?"));
  S3O_ASSIGN(put_, database.prepare("INSERT OR REPLACE INTO marks VALUES (?, ?)"));
  S3O_ASSIGN(keep_, database.prepare("INSERT OR IGNORE INTO marks VALUES (?, ?)"));
  S3O_ASSIGN(erase_, database.prepare("DELETE FROM marks WHERE bucket = ?"));
  return {};
}

/// Returns the bucket's own row; std::nullopt if there is none, or if it is damaged.
Result<std::optional<MarkRow>> MarkTable::own(BucketIndex bucket) {
  get_.bind(0, key_of(bucket));
  S3O_ASSIGN(const auto found, get_.step());
  if (!found) return std::optional<MarkRow>();
  auto row = decode_marks(bucket, get_.blob(0));
  get_.reset();
  return row;
}

Result<MarkTable::Found> MarkTable::find_row(BucketIndex bucket, unsigned height) {
  Found found;
  const bool in_stash = bucket >= kStashBucket;
  const bool is_leaf = !in_stash && level_of(bucket) >= height;
  S3O_ASSIGN(const auto its_own, own(bucket));
  if (its_own) {
    if (in_stash || is_leaf || !its_own->was_leaf(bucket)) found = {bucket, *its_own};
    return found;
  }
  for (unsigned level = level_of(bucket); is_leaf && level-- > 1;) {
    const BucketIndex above = bucket_on_path(bucket, level);
    S3O_ASSIGN(const auto row, own(above));
    if (!row) continue;
    if (row->was_leaf(above)) found = {above, *row};
    return found;
  }
  return found;
}

Result<std::optional<MarkRow>> MarkTable::find(BucketIndex bucket, unsigned height) {
  S3O_ASSIGN(const auto found, find_row(bucket, height));
  std::optional<MarkRow> row;
  if (found.bucket != 0) row = found.row;
  return row;
}

Status MarkTable::put(BucketIndex bucket, const MarkRow& row) {
  if (bucket < kStashBucket && level_of(bucket) < row.height) {
    S3O_ASSIGN(const auto before, own(bucket));
    if (before && before->was_leaf(bucket))
      S3O_TRY(for_each_below(bucket, row.height, [&](BucketIndex below) {
        return keep_.bind(0, key_of(below)).bind(1, ByteSpan(encode_marks(below, *before))).run();
      }));
  }
  return put_.bind(0, key_of(bucket)).bind(1, ByteSpan(encode_marks(bucket, row))).run();
}

Status MarkTable::erase(BucketIndex bucket, unsigned height) {
  S3O_ASSIGN(const auto found, find_row(bucket, height));
  if (found.bucket == 0) return {};
  S3O_TRY(erase_.bind(0, key_of(found.bucket)).run());
  if (bucket >= kStashBucket || !found.row.was_leaf(found.bucket)) return {};
  const BucketIndex origin = bucket_on_path(bucket, found.row.height);
  for (unsigned level = found.row.height; level <= height; ++level)
    S3O_TRY(for_each_below(origin, level, [&](BucketIndex below) -> Status {
      S3O_ASSIGN(const auto row, own(below));
      if (!row || *row != found.row) return {};
      return erase_.bind(0, key_of(below)).run();
    }));
  return {};
}

}  // namespace s3oram
