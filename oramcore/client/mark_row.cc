// Encodes and decodes rows of table `marks`.
#define XXH_INLINE_ALL
#include "oramcore/client/mark_row.h"

#include <xxhash.h>

#include "oramcore/base/codec.h"

namespace s3oram {
namespace {

std::uint64_t checksum_of_marks(BucketIndex bucket, ByteSpan row) {
  return XXH3_64bits_withSeed(row.data(), row.size(), bucket);
}

}  // namespace

Bytes encode_marks(BucketIndex bucket, const MarkRow& row) {
  Writer body, sum;
  body(row.eviction, static_cast<std::uint8_t>(row.height));
  Bytes bytes = body.take();
  for (const auto& mark : row.marks) {
    const Mark given = mark.value_or(Mark{});
    bytes.insert(bytes.end(), given.begin(), given.end());
  }
  sum(checksum_of_marks(bucket, bytes));
  const Bytes behind = sum.take();
  bytes.insert(bytes.end(), behind.begin(), behind.end());
  return bytes;
}

std::optional<MarkRow> decode_marks(BucketIndex bucket, ByteSpan bytes) {
  constexpr std::size_t kFront = sizeof(std::uint64_t) + 1, kBack = sizeof(std::uint64_t);
  constexpr std::size_t kMark = sizeof(Mark);
  if (bytes.size() < kFront + kBack || (bytes.size() - kFront - kBack) % kMark != 0) return {};
  const ByteSpan body = bytes.first(bytes.size() - kBack);
  std::uint64_t sum = 0;
  Reader behind(bytes.last(kBack));
  behind(sum);
  if (sum != checksum_of_marks(bucket, body)) return {};
  MarkRow row;
  std::uint8_t height = 0;
  Reader front(body.first(kFront));
  front(row.eviction, height);
  row.height = height;
  for (ByteSpan left = body.subspan(kFront); !left.empty(); left = left.subspan(kMark)) {
    Mark mark;
    std::copy_n(left.begin(), kMark, mark.begin());
    row.marks.push_back(mark == Mark{} ? std::nullopt : std::optional(mark));
  }
  return row;
}

}  // namespace s3oram
