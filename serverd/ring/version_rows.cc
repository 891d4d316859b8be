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
  S3O_ASSIGN(const CheckAnswer checked, check(ref));
  if (checked.lost > 0) return found;
  return store_.read(ref, level);
}

Result<CheckAnswer> VersionRows::check(const BucketVersionRef& ref) {
  BucketVersionRef all = ref;
  all.slots = static_cast<std::uint16_t>(rows_ + 1);
  S3O_ASSIGN(const auto lost, store_.damaged(all));
  if (lost.empty()) return CheckAnswer{};
  if (lost.size() > 1 || !rule_holds(Rule::parity_row))
    return CheckAnswer{0, static_cast<std::uint16_t>(lost.size())};
  return rebuild(ref, lost);
}

/// In place: the row is what it was, and until it is durable the disk has no more of it than now.
Result<CheckAnswer> VersionRows::rebuild(const BucketVersionRef& ref,
                                         const std::vector<std::uint16_t>& lost) {
  const std::uint16_t row = lost.front();
  Bytes sum(row_size_);
  for (std::size_t other = 0; other <= rows_; ++other) {
    if (other == row) continue;
    S3O_ASSIGN(const auto slot, store_.read_slot(ref.bucket_version, other, ref.stamp));
    if (!slot) return CheckAnswer{0, 2};  // it was sound a moment ago
    gf::multiply_add(1, slot->content, sum);
  }
  S3O_TRY(store_.write_slot(ref.bucket_version, row, sum, *ref.stamp));
  S3O_TRY(store_.sync());
  spdlog::warn("row {} of bucket version {} was damaged on disk, and is rebuilt", row,
               ref.bucket_version);
  return CheckAnswer{1, 0};
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
