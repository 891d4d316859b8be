// A slot's label: what a scan of all slots needs to rebuild a lost position map. It lies in the
// slot beside the sealed block. Only the client, which has t + 1 shares, can read it.
//
//   number (8) | version (8) | ... | leaf and marks (8)
//
// The last word is 0 if no leaf is known. Otherwise it holds the leaf in bits 0-39, bit 62 is set,
// and bit 63 is set if the block is part of a backup. In a mirror, bits 40-55 hold the root slot to
// which the block was written, and bit 61 is set; in blocks that older programs wrote, all these
// bits are 0.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "oramcore/base/bytes.h"
#include "oramcore/oram/geometry.h"

namespace s3oram {

/// The number in a slot that holds no block.
constexpr std::uint64_t kNoBlock = ~std::uint64_t{0};

struct Label {
  std::uint64_t block = kNoBlock;
  std::uint64_t version = 0;  // number of the access that wrote it; 0 in a slot of zeros
  std::optional<Leaf> leaf;   // missing in blocks that older programs wrote
  bool backup = false;        // meaningful only with a leaf
  // The root slot to which the block was written, in a mirror, where a single server could show the
  // block in another slot. Meaningful only with a leaf.
  std::optional<std::uint16_t> root_slot = {};

  bool holds_block() const { return block != kNoBlock && version != 0; }
};

/// The label's bytes in a slot, or, in a share of the slot, a server's share of them.
using LabelBytes = std::array<std::uint8_t, 24>;
constexpr std::size_t kLabelFront = 16, kLabelBack = 8;

inline LabelBytes label_bytes(ByteSpan slot) {
  LabelBytes bytes;
  std::memcpy(bytes.data(), slot.data(), kLabelFront);
  std::memcpy(bytes.data() + kLabelFront, slot.data() + slot.size() - kLabelBack, kLabelBack);
  return bytes;
}

constexpr std::uint64_t kHasLeaf = std::uint64_t{1} << 62, kIsBackup = std::uint64_t{1} << 63;
constexpr std::uint64_t kHasRootSlot = std::uint64_t{1} << 61;
constexpr unsigned kRootSlotShift = kLeafBits, kRootSlotBits = 16;

/// Returns the label's last word.
inline std::uint64_t label_back(const Label& label) {
  if (!label.leaf) return 0;
  const std::uint64_t root_slot =
      label.root_slot ? kHasRootSlot | std::uint64_t{*label.root_slot} << kRootSlotShift : 0;
  return *label.leaf | kHasLeaf | root_slot | (label.backup ? kIsBackup : 0);
}

/// Reads a label. Returns std::nullopt if no client writes such a label.
inline std::optional<Label> read_label(const LabelBytes& bytes) {
  Label label;
  std::uint64_t back = 0;
  std::memcpy(&label.block, bytes.data(), 8);
  std::memcpy(&label.version, bytes.data() + 8, 8);
  std::memcpy(&back, bytes.data() + kLabelFront, kLabelBack);
  if (back == 0) return label;
  const std::uint64_t marked = back & ~(kHasLeaf | kHasRootSlot | kIsBackup);
  const std::uint64_t root_slot = marked >> kRootSlotShift;
  const bool has_root_slot = (back & kHasRootSlot) != 0;
  if ((back & kHasLeaf) == 0 || root_slot >> (has_root_slot ? kRootSlotBits : 0) != 0)
    return std::nullopt;
  label.leaf = marked & ((Leaf{1} << kLeafBits) - 1);
  if (has_root_slot) label.root_slot = static_cast<std::uint16_t>(root_slot);
  label.backup = (back & kIsBackup) != 0;
  return label;
}

}  // namespace s3oram
