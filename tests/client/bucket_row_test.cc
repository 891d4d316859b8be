// Tests the rows that say where evictions put blocks: the next client loads exactly the rows that
// were committed.
#include "oramcore/client/bucket_row.h"

#include <gtest/gtest.h>

#include <random>

#include "oramcore/client/client_state.h"
#include "oramcore/client/state_check.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

TEST(BucketRow, ComesBackAndNoOtherDoes) {
  const BucketRow row{true, {{7, 3, 0, 1ull << 63}, {0xffffffff, 0xffff, 0, 12}}};
  const Bytes bytes = encode_row(9, row);
  const auto read = decode_row(9, bytes);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->at_leaf);
  ASSERT_EQ(read->blocks.size(), 2u);
  EXPECT_EQ(read->blocks[0].version, 1ull << 63);
  EXPECT_EQ(read->blocks[1].block, 0xffffffffu);
  EXPECT_EQ(read->blocks[1].slot, 0xffff);
  EXPECT_FALSE(decode_row(8, bytes)) << "a row of another bucket";
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    Bytes damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    EXPECT_FALSE(decode_row(9, damaged)) << bit;
  }
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_row(9, ByteSpan(bytes).first(size))) << size;
  EXPECT_TRUE(decode_row(9, encode_row(9, {})));
}

// A client, as far as its positions are concerned. Accesses put blocks into the root, and evictions
// put the blocks of a path anywhere on it. The tree grows at any time, even twice between two
// evictions.
class Client {
 public:
  Client(const std::filesystem::path& file, unsigned seed) : random_(seed) {
    EXPECT_TRUE(ClientState::create(file));
    auto state = ClientState::open(file);
    EXPECT_TRUE(state);
    if (state) state_ = std::move(*state);
  }

  void access() {
    const BlockId block = random_() % kBlocks;
    if (random_() % 10 == 0) {
      positions_.set(block, {});
      changes_.positions[block].reset();
      changes_.stash[block].reset();
    } else {
      put(block, {Position::Kind::tree, leaf(), 0, slot(), ++version_});
    }
  }
  void move_to_stash() {
    const BlockId block = random_() % kBlocks;
    Position position = positions_.get(block);
    if (position.kind != Position::Kind::tree) return;
    position.kind = Position::Kind::stash;
    position.level = 0;
    changes_.stash[block] = Bytes{1};
    put(block, position);
  }
  void evict(bool grows) {
    const Leaf path = tree_.tree_version++;
    std::set<BucketIndex> changed;
    for (unsigned level = 0; level <= tree_.height; ++level)
      for (const Resident& resident : positions_.contents(bucket_on_path(path, level))) {
        unsigned deepest = 0;
        while (deepest < tree_.height &&
               bucket_on_path(resident.leaf, deepest + 1) == bucket_on_path(path, deepest + 1))
          ++deepest;
        const auto new_level = static_cast<unsigned>(random_() % (deepest + 1));
        positions_.move(resident.block, new_level, slot(), changed);
      }
    for (const BucketIndex bucket : changed) changes_.buckets[bucket] = positions_.row(bucket);
    rows_ += changed.size();
    if (!grows) return;
    ++tree_.height;
    positions_.grow();
  }
  void commit() { ASSERT_GOOD(state_->commit(tree_, std::exchange(changes_, {}), {})); }
  /// Starts again from the content of the database, which must be the same as before.
  void reload() {
    Findings findings;
    auto loaded = state_->load({}, &findings);
    ASSERT_GOOD(loaded);
    for (const Finding& finding : findings) ADD_FAILURE() << finding.where << ": " << finding.what;
    ASSERT_EQ(loaded->positions.blocks(), positions_.blocks());
    for (const BlockId block : positions_.blocks()) {
      const Position is = loaded->positions.get(block), was = positions_.get(block);
      ASSERT_EQ(is.kind, was.kind) << block;
      ASSERT_EQ(std::tuple(is.leaf, is.level, is.slot, is.version),
                std::tuple(was.leaf, was.level, was.slot, was.version))
          << block;
    }
    positions_ = std::move(loaded->positions);
  }
  unsigned height() const { return tree_.height; }
  std::uint64_t random() { return random_(); }
  std::size_t take_rows() { return std::exchange(rows_, 0); }

 private:
  static constexpr BlockId kBlocks = 300;
  Leaf leaf() { return random_() & ((Leaf{1} << kLeafBits) - 1); }
  std::uint16_t slot() { return static_cast<std::uint16_t>(random_()); }
  void put(BlockId block, const Position& position) {
    if (position.kind == Position::Kind::tree) changes_.stash[block].reset();
    positions_.set(block, position);
    changes_.positions[block] =
        StateChanges::Row{PositionMap::pack(position, tree_.height), position.version};
  }

  std::mt19937_64 random_;
  std::optional<ClientState> state_;
  TreeState tree_;
  PositionMap positions_;
  StateChanges changes_;
  std::uint64_t version_ = 0;
  std::size_t rows_ = 0;
};

TEST(BucketRow, WhatIsLoadedIsWhatWas) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    TemporaryDirectory directory;
    Client client(directory / "vault.db", seed);
    for (int step = 0; step < 2000; ++step) {
      const auto what = client.random() % 100;
      if (what < 75)
        client.access();
      else if (what < 78)
        client.move_to_stash();
      else
        client.evict(what > 97 && client.height() < 8);
      if (client.random() % 5 == 0) {
        ASSERT_NO_FATAL_FAILURE(client.commit());
      }
      if (client.random() % 100 == 0) {
        ASSERT_NO_FATAL_FAILURE(client.commit());
        ASSERT_NO_FATAL_FAILURE(client.reload()) << "step " << step;
      }
    }
    EXPECT_EQ(client.height(), 8u);
  }
}

// This also holds after the tree has grown. Then some evictions write more rows, but none very
// many.
TEST(BucketRow, AnEvictionChangesARowForEachBucketOfItsPath) {
  TemporaryDirectory directory;
  Client client(directory / "vault.db", 1);
  for (unsigned height = 1; height < 7; ++height) {
    for (int i = 0; i < 2000; ++i) client.access();
    for (unsigned eviction = 0; eviction < 1u << height; ++eviction) {
      client.evict(false);
      EXPECT_LE(client.take_rows(), height + 1u);
      client.access();
    }
    client.evict(true);
    client.take_rows();
    std::size_t most = 0;
    for (unsigned eviction = 0; eviction < 2u << height; ++eviction) {
      client.evict(false);
      most = std::max(most, client.take_rows());
    }
    EXPECT_EQ(most, height + 3u) << "including the other half of its former leaf bucket";
  }
}

}  // namespace
}  // namespace s3oram
