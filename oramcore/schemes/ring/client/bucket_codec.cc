// Rows of bucket versions: sealed blocks at secret points, interpolated and tagged.
#include "oramcore/schemes/ring/client/bucket_codec.h"

#include <sodium.h>

#include <cassert>

#include "oramcore/base/rules.h"

namespace s3oram::ring {
namespace {

Seed derived_key(const Seed& key, std::string_view purpose) {
  Seed derived{};
  crypto_generichash(derived.data(), derived.size(), as_bytes(purpose).data(), purpose.size(),
                     key.data(), key.size());
  return derived;
}

}  // namespace

BucketCodec::BucketCodec(const Params& params, const Seed& key)
    : params_(params),
      points_key_(derived_key(key, "s3oramfs ring: points")),
      tags_(derived_key(key, "s3oramfs ring: row tags"), params.slot_size) {}

Bytes BucketCodec::encode(BucketIndex bucket, VersionStamp stamp,
                          std::span<const Bytes> sealed) const {
  const std::size_t rows = params_.bucket_size, size = params_.slot_size;
  assert(sealed.size() == rows);
  std::vector<const std::uint8_t*> slots;
  for (const Bytes& each : sealed) slots.push_back(each.data());
  Bytes encoded(rows * params_.row_size);
  std::vector<std::uint8_t*> outs;
  for (std::size_t row = 0; row < rows; ++row)
    outs.push_back(encoded.data() + row * params_.row_size);
  interpolate(points(bucket, stamp).first(rows), slots, outs, size);
  tags_.put(bucket, stamp, outs);
  return encoded;
}

Result<std::vector<Bytes>> BucketCodec::decode(BucketIndex bucket, VersionStamp stamp,
                                               ByteSpan rows) const {
  const std::size_t count = params_.bucket_size;
  if (rows.size() != count * params_.row_size)
    return fail(Errc::corrupt, "bucket {}: the server sent {} bytes, which is not its size", bucket,
                rows.size());
  std::vector<const std::uint8_t*> each;
  for (std::size_t row = 0; row < count; ++row)
    each.push_back(rows.data() + row * params_.row_size);
  if (!tags_.fit(bucket, stamp, each) && rule_holds(Rule::verified_answers))
    return fail(Errc::corrupt, "rows of bucket {} are not what was stored", bucket);
  std::vector<Bytes> slots(count, Bytes(params_.slot_size));
  std::vector<std::uint8_t*> outs;
  for (Bytes& slot : slots) outs.push_back(slot.data());
  evaluate(each, points(bucket, stamp).first(count), outs, params_.slot_size);
  return slots;
}

}  // namespace s3oram::ring
