// Keeps positions packed, and the blocks of each bucket.
#include "oramcore/client/position_map.h"

#include <algorithm>

namespace s3oram {
namespace {

// A packed position: leaf in bits 0-39, level in 40-47, slot in 48-63. Special levels:
constexpr std::uint64_t kAtLeaf = 0xff, kStash = 0xfe, kUnmapped = 0xfd;
constexpr std::uint64_t kNowhere = kUnmapped << kLeafBits;

}  // namespace

std::uint64_t PositionMap::pack(const Position& position, unsigned height) {
  std::uint64_t level = position.level == height ? kAtLeaf : position.level;
  if (position.kind == Position::Kind::stash) level = kStash;
  if (position.kind == Position::Kind::unmapped) level = kUnmapped;
  return position.leaf | level << kLeafBits | std::uint64_t{position.slot} << 48;
}

Position PositionMap::unpack(std::uint64_t packed, std::uint64_t version, unsigned height) {
  Position position{.kind = Position::Kind::tree,
                    .leaf = packed & ((Leaf{1} << kLeafBits) - 1),
                    .slot = static_cast<std::uint16_t>(packed >> 48),
                    .version = version};
  const std::uint64_t level = packed >> kLeafBits & 0xff;
  if (level == kStash) position.kind = Position::Kind::stash;
  if (level == kUnmapped) position.kind = Position::Kind::unmapped;
  if (position.kind == Position::Kind::tree)
    position.level = static_cast<std::uint8_t>(level == kAtLeaf ? height : level);
  return position;
}

void PositionMap::reset(unsigned height) {
  height_ = height;
  mapped_ = 0;
  packed_.clear();
  versions_.clear();
  buckets_.assign(bucket_count(height) + 1, {});
  undivided_.assign(buckets_.size(), false);
}

Position PositionMap::get(BlockId block) const {
  if (block >= packed_.size()) return {};
  return unpack(packed_[block], versions_[block], height_);
}

void PositionMap::set(BlockId block, const Position& position) {
  if (block >= packed_.size()) {
    if (position.kind == Position::Kind::unmapped) return;
    packed_.resize(block + 1, kNowhere);
    versions_.resize(block + 1, 0);
  }
  leave(block, get(block));
  packed_[block] = pack(position, height_);
  versions_[block] = position.version;
  enter(block, position);
}

void PositionMap::enter(BlockId block, const Position& position) {
  if (position.kind == Position::Kind::unmapped) return;
  ++mapped_;
  if (position.kind == Position::Kind::tree)
    buckets_[bucket_on_path(position.leaf, position.level)].push_back(
        static_cast<std::uint32_t>(block));
}

void PositionMap::leave(BlockId block, const Position& position) {
  if (position.kind == Position::Kind::unmapped) return;
  --mapped_;
  if (position.kind == Position::Kind::tree) {
    auto& bucket = buckets_[bucket_on_path(position.leaf, position.level)];
    *std::find(bucket.begin(), bucket.end(), static_cast<std::uint32_t>(block)) = bucket.back();
    bucket.pop_back();
  }
}

void PositionMap::grow() {
  ++height_;
  buckets_.resize(bucket_count(height_) + 1);
  undivided_.resize(buckets_.size(), false);
  for (BucketIndex leaf = BucketIndex{1} << (height_ - 1); leaf < BucketIndex{1} << height_;
       ++leaf) {
    bool below_another = false;
    for (unsigned level = 0; level < height_ - 1; ++level)
      below_another = below_another || undivided_[bucket_on_path(leaf, level)];
    undivided_[leaf] = !below_another;
    for (const std::uint32_t block : std::exchange(buckets_[leaf], {}))
      buckets_[bucket_on_path(packed_[block], height_)].push_back(block);
  }
}

BucketContents PositionMap::contents(BucketIndex bucket) const {
  BucketContents contents;
  for (const std::uint32_t block : buckets_[bucket]) {
    const Position position = get(block);
    contents.push_back({block, position.slot, position.leaf, position.version});
  }
  return contents;
}

BucketRow PositionMap::row(BucketIndex bucket) const {
  return {.at_leaf = level_of(bucket) == height_, .blocks = contents(bucket)};
}

void PositionMap::move(BlockId block, unsigned level, std::uint16_t slot,
                       std::set<BucketIndex>& rows) {
  Position position = get(block);
  add_changed_rows(bucket_on_path(position.leaf, position.level), rows);
  position.level = static_cast<std::uint8_t>(level);
  position.slot = slot;
  add_changed_rows(bucket_on_path(position.leaf, position.level), rows);
  set(block, position);
}

void PositionMap::add_changed_rows(BucketIndex bucket, std::set<BucketIndex>& rows) {
  rows.insert(bucket);
  for (unsigned level = 0; level <= level_of(bucket); ++level) {
    const BucketIndex above = bucket_on_path(bucket, level);
    if (!undivided_[above]) continue;
    undivided_[above] = false;
    rows.insert(above);
    const Leaf leaves = Leaf{1} << height_, step = Leaf{1} << level;
    for (Leaf leaf = above % step; leaf < leaves; leaf += step) rows.insert(leaves + leaf);
  }
}

std::vector<BlockId> PositionMap::blocks() const {
  std::vector<BlockId> blocks;
  for (BlockId block = 0; block < packed_.size(); ++block)
    if (get(block).kind != Position::Kind::unmapped) blocks.push_back(block);
  return blocks;
}

}  // namespace s3oram
