// Adds checksums to rows, and checks them.
#define XXH_INLINE_ALL
#include "oramcore/client/checked_row.h"

#include <xxhash.h>

#include "oramcore/base/codec.h"

namespace s3oram {
namespace {

constexpr std::size_t kRowChecksum = sizeof(std::uint64_t);

std::uint64_t checksum_of(BucketIndex bucket, ByteSpan row) {
  return XXH3_64bits_withSeed(row.data(), row.size(), bucket);
}

}  // namespace

Bytes with_checksum(BucketIndex bucket, Bytes row) {
  Writer sum;
  sum(checksum_of(bucket, row));
  const Bytes behind = sum.take();
  row.insert(row.end(), behind.begin(), behind.end());
  return row;
}

std::optional<ByteSpan> without_checksum(BucketIndex bucket, ByteSpan bytes) {
  if (bytes.size() < kRowChecksum) return std::nullopt;
  const ByteSpan row = bytes.first(bytes.size() - kRowChecksum);
  std::uint64_t sum = 0;
  Reader behind(bytes.last(kRowChecksum));
  behind(sum);
  if (sum != checksum_of(bucket, row)) return std::nullopt;
  return row;
}

}  // namespace s3oram
