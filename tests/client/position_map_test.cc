// Compares the position map with a plain model, and tests its packed form.
#include "oramcore/client/position_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace s3oram {
namespace {

bool operator==(const Position& a, const Position& b) {
  return a.kind == b.kind && a.leaf == b.leaf && a.level == b.level && a.slot == b.slot &&
         a.version == b.version;
}

Position in_tree(Leaf leaf, std::uint8_t level, std::uint16_t slot, std::uint64_t version) {
  return {Position::Kind::tree, leaf, level, slot, version};
}

// Does the same as the map, in the simplest way.
class Model {
 public:
  void set(BlockId block, const Position& position) {
    if (position.kind == Position::Kind::unmapped)
      held_.erase(block);
    else
      held_[block] = position;
  }
  void grow(unsigned former_height) {
    for (auto& [block, position] : held_)
      if (position.kind == Position::Kind::tree && position.level == former_height)
        ++position.level;
  }
  void check(const PositionMap& map, BlockId highest) const {
    ASSERT_EQ(map.mapped(), held_.size());
    std::vector<BlockId> blocks;
    std::map<BucketIndex, std::vector<std::tuple<BlockId, std::uint16_t, Leaf>>> buckets, found;
    for (const auto& [block, position] : held_) {
      blocks.push_back(block);
      if (position.kind == Position::Kind::tree)
        buckets[bucket_on_path(position.leaf, position.level)].emplace_back(block, position.slot,
                                                                            position.leaf);
    }
    ASSERT_EQ(map.blocks(), blocks);
    for (BlockId block = 0; block < highest + 10; ++block) {
      const auto wanted = held_.find(block);
      const Position position = wanted == held_.end() ? Position{} : wanted->second;
      ASSERT_TRUE(map.get(block) == position) << block;
    }
    for (BucketIndex bucket = 1; bucket <= bucket_count(map.height()); ++bucket)
      for (const Resident& resident : map.contents(bucket))
        found[bucket].emplace_back(resident.block, resident.slot, resident.leaf);
    for (auto& [bucket, residents] : found) std::sort(residents.begin(), residents.end());
    ASSERT_EQ(found, buckets);
  }

 private:
  std::map<BlockId, Position> held_;
};

TEST(PositionMap, AgreesWithAPlainModel) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 random(seed);
    PositionMap map(2);
    Model model;
    constexpr BlockId kBlocks = 200;
    for (int step = 0; step < 3000; ++step) {
      if (step % 600 == 599) {
        model.grow(map.height());
        map.grow();
      } else {
        const BlockId block = random() % kBlocks;
        Position position;
        switch (random() % 6) {
          case 0:
            break;
          case 1:
            position = {Position::Kind::stash, random() >> 24, 0, 0, random()};
            break;
          default:
            position =
                in_tree(random() >> 24, static_cast<std::uint8_t>(random() % (map.height() + 1)),
                        static_cast<std::uint16_t>(random()), random());
        }
        map.set(block, position);
        model.set(block, position);
      }
      if (step % 50 == 49) {
        ASSERT_NO_FATAL_FAILURE(model.check(map, kBlocks)) << "step " << step;
      }
    }
    EXPECT_EQ(map.height(), 7u);
    map.reset(3);
    Model().check(map, kBlocks);
  }
}

TEST(PositionMap, GrowingChangesNoRowOfTheDatabase) {
  const Position positions[] = {in_tree(0xfedcba9876, 0, 3, 5), in_tree(0xfedcba9876, 4, 0xffff, 6),
                                in_tree(0, 5, 0, 7), in_tree(0xffffffffff, 5, 9, 8)};
  PositionMap map(5);
  for (BlockId block = 0; block < 4; ++block) map.set(block, positions[block]);
  map.grow();
  for (BlockId block = 0; block < 4; ++block) {
    const std::uint64_t row = PositionMap::pack(positions[block], 5);
    EXPECT_TRUE(PositionMap::unpack(row, positions[block].version, 6) == map.get(block)) << block;
    EXPECT_EQ(PositionMap::pack(map.get(block), 6), row) << block;
  }
  EXPECT_EQ(map.get(0).level, 0);
  EXPECT_EQ(map.get(1).level, 4);
  EXPECT_EQ(map.get(2).level, 6);
}

TEST(PositionMap, PacksEveryKindSoThatItComesBack) {
  for (unsigned height : {1u, 7u, kMaxHeight}) {
    for (std::uint8_t level = 0; level <= height; ++level) {
      const Position position = in_tree(0x8000000001, level, 0xffff, 42);
      EXPECT_TRUE(PositionMap::unpack(PositionMap::pack(position, height), 42, height) == position);
    }
    const Position stash{Position::Kind::stash, 0xffffffffff, 0, 0, 3};
    EXPECT_TRUE(PositionMap::unpack(PositionMap::pack(stash, height), 3, height) == stash);
    EXPECT_EQ(PositionMap::unpack(PositionMap::pack({}, height), 0, height).kind,
              Position::Kind::unmapped);
  }
}

TEST(PositionMap, ForgettingWhatIsUnknownChangesNothing) {
  PositionMap map(3);
  map.set(1000000, {});
  EXPECT_EQ(map.mapped(), 0u);
  map.set(5, in_tree(1, 3, 0, 1));
  map.set(5, {});
  map.set(5, {});
  map.set(4, {});
  EXPECT_EQ(map.mapped(), 0u);
  EXPECT_TRUE(map.blocks().empty());
  EXPECT_TRUE(map.contents(bucket_on_path(1, 3)).empty());
}

}  // namespace
}  // namespace s3oram
