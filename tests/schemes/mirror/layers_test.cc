// Layers come off in any number up to that of the header, whatever the tiles in which they were put
// on; rows for which nothing was selected come out as zeros; all stored bytes look random.
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "oramcore/oram/block_device.h"
#include "oramcore/protocol/mirror_layers.h"
#include "tests/schemes/mirror/plain_rows.h"

namespace s3oram {
namespace {

using mirror::kHeader;
using mirror::kLayers;

const VolumeParams kParams{.scheme = {1, 2},
                           .block_size = 512,
                           .bucket_size = 2,
                           .evict_every = 1,
                           .evictor = Evictor::selection,
                           .stash_slots = 2,
                           .privacy = Privacy::computational};

class LayersTest : public testing::Test {
 protected:
  mirror::LayerAttempt attempt() {
    mirror::LayerAttempt drawn;
    random_.fill(drawn);
    return drawn;
  }
  /// Puts one more layer on, at a place of its own.
  Bytes evicted(const Bytes& row, unsigned workers = 2) {
    place_ = (place_ + 3) % 7;
    mirror::Selection selection(7);
    selection[place_] = 0;
    return test::evicted_rows({row}, selection, keys_, attempt(), workers)[place_];
  }
  static Result<OpenedBlock> open_on(const Mirror& mirror, Bytes slot,
                                     std::optional<unsigned> height) {
    asio::io_context io;
    std::optional<Result<OpenedBlock>> opened;
    spawn(io.get_executor(),
          [](const Mirror& by, Bytes bytes, Executor pool, std::optional<unsigned> of_tree,
             std::optional<Result<OpenedBlock>>& to) -> Task<void> {
            to.emplace(co_await by.open_on(pool, std::move(bytes), of_tree));
          }(mirror, std::move(slot), io.get_executor(), height, opened));
    io.run();
    return std::move(*opened);
  }
  static Label label(std::uint64_t block) {
    return {.block = block, .version = 5, .leaf = Leaf{9}};
  }

  Seed key_{1, 2, 3};
  Prg random_{Seed{4}, as_bytes("layers")};
  mirror::LayerKeys keys_{key_};
  Mirror mirror_{kParams, key_, random_};
  std::size_t place_ = 0;
};

TEST_F(LayersTest, AStreamIsTheSameInAnyTiles) {
  mirror::Mask mask(Seed{7});
  Bytes whole(1000), parts(1000);
  mask.add(3, 0, whole);
  for (const std::size_t begin : {0, 128, 192, 640}) {
    const std::size_t end = begin == 0 ? 128 : begin == 128 ? 192 : begin == 192 ? 640 : 1000;
    mask.add(3, begin, MutableByteSpan(parts).subspan(begin, end - begin));
  }
  EXPECT_EQ(whole, parts);
  Bytes other(1000);
  mask.add(4, 0, other);
  EXPECT_NE(whole, other);
}

TEST_F(LayersTest, UpToAsManyAsAHeaderHoldsComeOff) {
  const Bytes content(kParams.block_size, 0x42);
  Bytes slot = mirror_.seal(label(6), content);
  for (unsigned layers = 0; layers <= kLayers; ++layers) {
    const auto opened = mirror_.open(slot);
    ASSERT_TRUE(opened) << layers;
    EXPECT_EQ(opened->content, content);
    EXPECT_EQ(opened->label.block, 6u);
    const auto head = mirror_.label_in(ByteSpan(slot).first(mirror::kHead));
    ASSERT_TRUE(head) << layers;
    EXPECT_EQ(head->block, 6u);
    EXPECT_EQ(head->leaf, Leaf{9});
    slot = evicted(slot);
  }
  EXPECT_FALSE(mirror_.open(slot)) << "the oldest layer's entry is gone";
}

// The servers see how long the client takes. It must not depend on how old the block is, not even
// if one of them changes an entry of the header, after which the rest looks like further layers.
TEST_F(LayersTest, AsManyStreamsAreDrawnWhateverTheSlotHolds) {
  constexpr unsigned kDrawn = 9, kWorkers = 2;
  Bytes slot = mirror_.seal(label(6), Bytes(kParams.block_size, 0x42));
  const Bytes sealed(slot.begin() + kHeader, slot.end());
  for (unsigned layers = 0; layers <= kDrawn + 2; ++layers) {
    Bytes peeled = slot;
    const mirror::Peeling peeling(keys_, peeled, kWorkers, kDrawn);
    EXPECT_EQ(peeling.streams(), kDrawn * kWorkers) << layers;
    for (const std::size_t part : {2, 0, 1}) peeling.peel_part(part, 3);
    EXPECT_EQ(peeling.is_sound(), layers <= kDrawn) << layers;
    EXPECT_EQ(Bytes(peeled.begin() + kHeader, peeled.end()) == sealed, layers <= kDrawn) << layers;
    Bytes changed = slot;
    changed[3] ^= 1;
    EXPECT_EQ(mirror::Peeling(keys_, changed, kWorkers, kDrawn).streams(), kDrawn * kWorkers);
    slot = evicted(slot);
  }
}

TEST_F(LayersTest, ABlockWithMoreLayersThanUsualIsOpenedWithoutAHeight) {
  Bytes slot = mirror_.seal(label(6), Bytes(kParams.block_size));
  for (unsigned layers = 0; layers < most_layers(1); ++layers) slot = evicted(slot);
  EXPECT_TRUE(open_on(mirror_, slot, 1));
  slot = evicted(slot);
  EXPECT_FALSE(open_on(mirror_, slot, 1));
  EXPECT_TRUE(open_on(mirror_, slot, 2));
  EXPECT_TRUE(open_on(mirror_, slot, std::nullopt));
}

TEST_F(LayersTest, MoreAreDrawnForAHigherTree) {
  EXPECT_EQ(most_layers(15), VolumeParams::kMaintainEvery / 2 + 15 + 15);
  EXPECT_EQ(most_layers(40), kLayers) << "as many as a header holds";
}

TEST_F(LayersTest, ASlotIsOpenedInParts) {
  VolumeParams large = kParams;
  large.block_size = 100'000;  // peeled in several parts
  Mirror mirror(large, key_, random_);
  const Bytes content(large.block_size, 0x42);
  Bytes slot = mirror.seal(label(6), content);
  for (unsigned layers = 0; layers < 3; ++layers) slot = evicted(slot);
  Bytes changed = slot;
  changed[kHeader - 1] ^= 1;
  const auto opened = open_on(mirror, slot, 3);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->content, content);
  EXPECT_FALSE(open_on(mirror, changed, 3)) << "its header holds more than its layers";
  EXPECT_FALSE(open_on(mirror, Bytes(5), 3));
}

TEST_F(LayersTest, NothingSelectedComesToNothing) {
  Bytes row = test::evicted_rows({Bytes(kParams.slot_size())}, mirror::Selection(3), keys_,
                                 attempt(), 2)[1];
  for (unsigned layers = 1; layers < 4; ++layers) {
    const auto label = mirror_.label_of(row);
    ASSERT_TRUE(label) << layers;
    EXPECT_FALSE(label->holds_block());
    EXPECT_TRUE(mirror_.label_in(ByteSpan(row).first(mirror::kHead)));
    row = evicted(row);
  }
  row[kHeader + 100] ^= 1;
  EXPECT_FALSE(mirror_.label_of(row)) << "no client made it";
}

TEST_F(LayersTest, AnotherKeyPeelsNothing) {
  const Bytes slot = evicted(mirror_.seal(label(6), Bytes(kParams.block_size)));
  EXPECT_TRUE(mirror_.open(slot));
  const Mirror stranger(kParams, Seed{1, 2, 4}, random_);
  EXPECT_FALSE(stranger.open(slot));
}

TEST_F(LayersTest, AChangedEntryOrByteIsRefused) {
  const Bytes slot = evicted(evicted(mirror_.seal(label(6), Bytes(kParams.block_size))));
  for (const std::size_t at : {std::size_t{0}, std::size_t{15}, std::size_t{20}, kHeader + 3,
                               kHeader + 50, slot.size() - 1}) {
    Bytes changed = slot;
    changed[at] ^= 4;
    EXPECT_FALSE(mirror_.open(changed)) << at;
  }
}

// Any changed entry makes the slot unreadable. Otherwise a server that changes an entry would see,
// by whether a read fails, how many layers a block has, and so how old it is.
TEST_F(LayersTest, NoEntryOfAHeaderMayChange) {
  const Bytes content(kParams.block_size, 0x42);
  Bytes slot = mirror_.seal(label(6), content);
  for (unsigned layers = 0; layers <= kLayers; ++layers) {
    ASSERT_TRUE(mirror_.open(slot)) << layers;
    for (const unsigned entry : {0U, 1U, layers, layers + 1, kLayers / 2, kLayers - 1}) {
      if (entry >= kLayers) continue;
      Bytes changed = slot;
      changed[entry * mirror::kEntry + 5] ^= 1;
      EXPECT_FALSE(mirror_.open(changed)) << layers << " layers, entry " << entry;
    }
    slot = evicted(slot);
  }
}

// By column: blocks, empty root writes and rows of nothing, with one layer and with several. Entry
// 0 is in the clear: it has the attempt of an eviction and a public place.
TEST_F(LayersTest, StoredBytesTellNothingApart) {
  constexpr std::size_t kRows = 2560, kValues = 16;
  constexpr double kMost = 15 + 7 * 5.48;  // 15 degrees of freedom, plus seven standard deviations
  const Bytes block = mirror_.seal(label(6), Bytes(kParams.block_size));
  const Bytes empty = mirror_.seal({}, Bytes(kParams.block_size));
  const Bytes nothing(kParams.slot_size());
  const Bytes deep = evicted(evicted(evicted(block)));
  for (const Bytes* const row : {&block, &empty, &nothing, &deep}) {
    std::vector<std::array<unsigned, kValues>> counts(row->size());
    for (std::size_t i = 0; i < kRows; ++i) {
      const Bytes stored = evicted(*row);
      for (std::size_t at = mirror::kEntry; at < stored.size(); ++at)
        ++counts[at][stored[at] % kValues];
    }
    for (std::size_t at = mirror::kEntry; at < row->size(); ++at) {
      double sum = 0;
      for (const unsigned count : counts[at]) {
        constexpr double kMean = double{kRows} / kValues;
        sum += (count - kMean) * (count - kMean) / kMean;
      }
      ASSERT_LT(sum, kMost) << "column " << at;
    }
  }
}

}  // namespace
}  // namespace s3oram
