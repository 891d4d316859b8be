// Encodes and decodes rows of table `buckets`.
#include "oramcore/client/bucket_row.h"

#include "oramcore/base/codec.h"
#include "oramcore/client/checked_row.h"

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

}  // namespace

Bytes encode_row(BucketIndex bucket, const BucketRow& row) {
  std::vector<Entry> entries;
  entries.reserve(row.blocks.size());
  for (const Resident& resident : row.blocks)
    entries.push_back(
        {static_cast<std::uint32_t>(resident.block), resident.version, resident.slot});
  Writer body;
  body(row.at_leaf, entries);
  return with_checksum(bucket, body.take());
}

std::optional<BucketRow> decode_row(BucketIndex bucket, ByteSpan bytes) {
  const auto body = without_checksum(bucket, bytes);
  if (!body) return {};
  BucketRow row;
  std::vector<Entry> entries;
  Reader reader(*body);
  reader(row.at_leaf, entries);
  if (!reader.complete()) return {};
  for (const Entry& entry : entries)
    row.blocks.push_back(
        {.block = entry.block, .slot = entry.slot, .leaf = 0, .version = entry.version});
  return row;
}

}  // namespace s3oram
