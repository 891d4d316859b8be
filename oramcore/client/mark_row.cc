// Encodes and decodes rows of table `marks`.
#include "oramcore/client/mark_row.h"

#include <algorithm>

#include "oramcore/base/codec.h"
#include "oramcore/client/checked_row.h"

namespace s3oram {

Bytes encode_marks(BucketIndex bucket, const MarkRow& row) {
  Writer body;
  body(row.eviction, static_cast<std::uint8_t>(row.height));
  Bytes bytes = body.take();
  for (const auto& mark : row.marks) {
    const Mark given = mark.value_or(Mark{});
    bytes.insert(bytes.end(), given.begin(), given.end());
  }
  return with_checksum(bucket, std::move(bytes));
}

std::optional<MarkRow> decode_marks(BucketIndex bucket, ByteSpan bytes) {
  constexpr std::size_t kFront = sizeof(std::uint64_t) + 1, kMark = sizeof(Mark);
  const auto body = without_checksum(bucket, bytes);
  if (!body || body->size() < kFront || (body->size() - kFront) % kMark != 0) return {};
  MarkRow row;
  std::uint8_t height = 0;
  Reader front(body->first(kFront));
  front(row.eviction, height);
  row.height = height;
  for (ByteSpan left = body->subspan(kFront); !left.empty(); left = left.subspan(kMark)) {
    Mark mark;
    std::copy_n(left.begin(), kMark, mark.begin());
    row.marks.push_back(mark == Mark{} ? std::nullopt : std::optional(mark));
  }
  return row;
}

}  // namespace s3oram
