// The parts that most schemes have in common.
#include "oramcore/client/client_scheme.h"

#include <algorithm>

namespace s3oram {

bool is_zero(ByteSpan bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

std::optional<Label> ClientScheme::label_of(ByteSpan slot) const {
  if (is_zero(slot)) return Label{};
  const auto block = open(slot);
  if (!block) return std::nullopt;
  return block->label;
}

}  // namespace s3oram
