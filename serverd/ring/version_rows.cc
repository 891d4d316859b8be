// Reads, checks and rebuilds the rows of bucket versions.
#include "serverd/ring/version_rows.h"

#include <spdlog/spdlog.h>

#include <cstring>

#include "oramcore/base/rules.h"
#include "oramcore/field/gf256.h"

namespace s3oram::ring {

Result<std::shared_ptr<const BucketVersion>> VersionRows::read(const BucketVersionRef& ref,
                                                               unsigned level) {
  auto found = store_.read(ref, level);
  if (found || found.error().code != Errc::corrupt || !rule_holds(Rule::parity_row)) return found;
  S3O_ASSIGN(Rows rows, read_each(ref));
  if (rows.unreadable.empty()) patience_.end(ref.bucket_version);
  if (rows.lost() > 1) {
    // (Two rows that do not match their checksums are lost, whatever can be read later.)
    const bool may_pass = rows.damaged.size() < 2 && !rows.unreadable.empty();
    if (may_pass && patience_.waits_for(ref.bucket_version))
      return fail(Errc::failed, "{} rows of bucket version {} cannot be read from the disk",
                  rows.unreadable.size(), ref.bucket_version);
    return found;
  }
  if (rows.lost() == 1) rebuild(ref, rows);
  std::shared_ptr<const BucketVersion> content = std::move(rows.content);
  store_.keep(ref, content, level);
  return content;
}

Result<CheckAnswer> VersionRows::check(const BucketVersionRef& ref) {
  S3O_ASSIGN(Rows rows, read_each(ref));
  if (rows.lost() == 0) return CheckAnswer{};
  if (rows.lost() > 1 || !rule_holds(Rule::parity_row))
    return CheckAnswer{0, static_cast<std::uint16_t>(rows.lost())};
  return rebuild(ref, rows) ? CheckAnswer{1, 0} : CheckAnswer{};
}

Result<VersionRows::Rows> VersionRows::read_each(const BucketVersionRef& ref) {
  Rows rows;
  S3O_ASSIGN(rows.content, store_.copy({}));
  for (std::uint16_t row = 0; row <= rows_; ++row) {
    const auto slot = store_.read_slot(ref.bucket_version, row, ref.stamp);
    if (!slot && slot.error().code == Errc::damaged_vault) return fail(slot.error());
    if (!slot)
      rows.unreadable.push_back(row);
    else if (!*slot)
      rows.damaged.push_back(row);
    else
      std::memcpy(rows.content->slot(row), (*slot)->content.data(), row_size_);
  }
  return rows;
}

/// Writes in place, because the row's content does not change, and the disk has lost the row
/// anyway. If the disk does not take the write, the rows in memory are still whole.
bool VersionRows::rebuild(const BucketVersionRef& ref, Rows& rows) {
  const std::uint16_t row = rows.damaged.empty() ? rows.unreadable.front() : rows.damaged.front();
  const MutableByteSpan sum(rows.content->slot(row), row_size_);
  std::memset(sum.data(), 0, sum.size());
  for (std::size_t other = 0; other <= rows_; ++other)
    if (other != row) gf::multiply_add(1, {rows.content->slot(other), row_size_}, sum);
  const Status written = store_.write_slot(ref.bucket_version, row, sum, *ref.stamp);
  if (written)
    spdlog::warn("row {} of bucket version {} was damaged on disk, and is rebuilt", row,
                 ref.bucket_version);
  else
    spdlog::error("row {} of bucket version {} is damaged on disk, and cannot be written: {}", row,
                  ref.bucket_version, written.error().message);
  return written.has_value();
}

Status VersionRows::write(BucketVersionNumber version, std::shared_ptr<BucketVersion> content,
                          VersionStamp stamp, unsigned level) {
  const MutableByteSpan sum(content->slot(rows_), row_size_);
  std::memset(sum.data(), 0, sum.size());
  for (std::size_t row = 0; row < rows_; ++row)
    gf::multiply_add(1, {content->slot(row), row_size_}, sum);
  return store_.write(version, std::move(content), stamp, level);
}

}  // namespace s3oram::ring
