// Computes how much fits into a message of ring.
#include "oramcore/schemes/ring/protocol/ring_messages.h"

#include <cstring>

#include "oramcore/net/transport.h"

namespace s3oram::ring {
namespace {

constexpr std::size_t kRowsBytes = 1 << 20;  // per message, but at least one row
constexpr std::size_t kOtherFields = 8192;
constexpr std::size_t kRowItem = 16;  // bytes beside each row in a list

}  // namespace

/// Never returns 0, which means that there is no version.
VersionStamp stamp_of(const Attempt& attempt) {
  VersionStamp stamp = 0;
  std::memcpy(&stamp, attempt.data(), sizeof stamp);
  return stamp == 0 ? 1 : stamp;
}

std::uint16_t rows_in_message(const Params& params) {
  const std::size_t fitting = kRowsBytes / params.row_size;
  return static_cast<std::uint16_t>(std::clamp<std::size_t>(fitting, 1, params.bucket_size));
}

std::size_t largest_message(const Params& params) {
  const std::size_t row = params.row_size + kRowItem;
  const std::size_t path = kMaxHeight + 1 - params.top_levels;
  const std::size_t version = sizeof(BucketIndex) + sizeof(VersionStamp) + kPoints / 8;
  const std::size_t largest =
      std::max({rows_in_message(params) * row, path * row, LayoutRequest::kMost * version});
  return std::max(kLargestWithoutVolume, largest + kOtherFields);
}

}  // namespace s3oram::ring
