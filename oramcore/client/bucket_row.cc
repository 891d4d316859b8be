// Encodes and decodes rows of table `buckets`.
#define XXH_INLINE_ALL
#include "oramcore/client/bucket_row.h"

#include <xxhash.h>

#include "oramcore/base/codec.h"

namespace s3oram {
namespace {

struct Entry {
  std::uint32_t block = 0;
  std::uint64_t version = 0;
  std::uint16_t slot = 0;
  template <class Archive>
  void fields(Archive& archive) {
    archive(block, version, slot);
  }
};

std::uint64_t checksum(BucketIndex bucket, ByteSpan row) {
  return XXH3_64bits_withSeed(row.data(), row.size(), bucket);
}

}  // namespace

Bytes encode_row(BucketIndex bucket, const BucketRow& row) {
  std::vector<Entry> entries;
  entries.reserve(row.blocks.size());
  for (const Resident& resident : row.blocks)
    entries.push_back(
        {static_cast<std::uint32_t>(resident.block), resident.version, resident.slot});
  Writer body, sum;
  body(row.at_leaf, entries);
  Bytes bytes = body.take();
  sum(checksum(bucket, bytes));
  const Bytes behind = sum.take();
  bytes.insert(bytes.end(), behind.begin(), behind.end());
  return bytes;
}

std::optional<BucketRow> decode_row(BucketIndex bucket, ByteSpan bytes) {
  BucketRow row;
  std::vector<Entry> entries;
  std::uint64_t sum = 0;
  Reader reader(bytes);
  reader(row.at_leaf, entries, sum);
  if (!reader.complete() || sum != checksum(bucket, bytes.first(bytes.size() - sizeof sum)))
    return {};
  for (const Entry& entry : entries)
    row.blocks.push_back(
        {.block = entry.block, .slot = entry.slot, .leaf = 0, .version = entry.version});
  return row;
}

}  // namespace s3oram
