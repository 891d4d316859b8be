// A server's view of queries and evictions does not depend on what is asked for. The sums are
// tested by enumeration of everything that can be drawn; the messages by their shape and by what
// they add up to.
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "oramcore/sharing/seeded.h"
#include "tests/schemes/mirror/plain_rows.h"

namespace s3oram {
namespace {

VolumeParams params(Scheme scheme) {
  return {.scheme = scheme,
          .block_size = 512,
          .bucket_size = 2,
          .evict_every = 2,
          .evictor = Evictor::selection,
          .stash_slots = 2,
          .privacy = Privacy::computational};
}

// ---- by enumeration

constexpr unsigned kOld = 3, kNew = 2;  // numbers of rows, each of one bit

/// Bit `to` of the result is the sum of the old rows that row `to` of the matrix selects.
unsigned product(unsigned matrix, unsigned rows) {
  unsigned result = 0;
  for (unsigned to = 0; to < kNew; ++to)
    result |= (std::popcount(matrix >> to * kOld & rows & 7u) & 1u) << to;
  return result;
}

/// Returns how often worker 1 of two has each view in an eviction and the next one of the same
/// path: its shares of the matrices, the messages that it gets, and the new rows, as one number.
std::vector<std::uint16_t> views(unsigned rows, unsigned first_map, unsigned second_map) {
  constexpr unsigned kMatrixBits = kOld * kNew;
  constexpr unsigned kMatrices = 1u << kMatrixBits, kMasks = 1u << kNew;
  std::vector<std::uint16_t> all(std::size_t{1} << (2 * kMatrixBits + 3 * kNew));
  for (unsigned share = 0; share < kMatrices; ++share)
    for (unsigned mask = 0; mask < kMasks; ++mask) {
      const unsigned sent = product(share ^ first_map, rows) ^ mask;
      const unsigned made = product(share, rows) ^ sent;  // it knows its own mask
      const unsigned path = made | (rows & 4u);           // a new write takes the last place
      for (unsigned again = 0; again < kMatrices; ++again)
        for (unsigned mask_again = 0; mask_again < kMasks; ++mask_again) {
          const unsigned sent_again = product(again ^ second_map, path) ^ mask_again;
          std::size_t view = share;
          for (const unsigned part : {sent, made, sent_again}) view = view << kNew | part;
          ++all[view << kMatrixBits | again];
        }
    }
  return all;
}

/// Row `to` of the new path is one of the old rows, or nothing.
std::vector<unsigned> all_maps() {
  std::vector<unsigned> maps;
  for (unsigned a = 0; a <= kOld; ++a)
    for (unsigned b = 0; b <= kOld; ++b)
      maps.push_back((a < kOld ? 1u << a : 0u) | (b < kOld ? 1u << b : 0u) << kOld);
  return maps;
}

// The server knows the bytes that it stores, so views are compared for the same rows.
TEST(MirrorViews, AreTheSameForAllMapsInTwoEvictionsInARow) {
  const auto maps = all_maps();
  for (unsigned rows = 0; rows < 1u << kOld; ++rows) {
    const auto of_nothing = views(rows, 0, 0);
    for (const unsigned first : maps)
      for (const unsigned second : {maps[1], maps[6]})
        ASSERT_EQ(views(rows, first, second), of_nothing) << rows << " " << first << " " << second;
  }
}

// ---- the messages

Bytes expanded(const ServerQuery& query, WriteNumber write_number, std::size_t size) {
  return query.seed ? expand(*query.seed, "select", write_number, size) : query.given;
}

TEST(MirrorViews, QueriesAddUpToWhatIsWanted) {
  Prg random(Seed{1}, as_bytes("views"));
  for (const Scheme scheme : {Scheme{1, 2}, Scheme{1, 3}, Scheme{2, 3}, Scheme{5, 6}}) {
    Mirror mirror(params(scheme), Seed{2}, random);
    constexpr std::size_t kSlots = 21;
    for (std::size_t index = 0; index <= kSlots; ++index) {
      const auto queries = mirror.queries(7, kSlots, index);
      ASSERT_EQ(queries.size(), scheme.threshold + 1u);
      Bytes sum(gf::bit_row(kSlots));
      for (const ServerQuery& query : queries)
        gf::multiply_add(1, expanded(query, 7, sum.size()), sum);
      for (std::size_t slot = 0; slot < kSlots; ++slot)
        EXPECT_EQ(sum[slot / 8] >> slot % 8 & 1, slot == index);
    }
  }
}

// A repeated request must not show the difference of two, so its seeds are fresh.
TEST(MirrorViews, NoSeedIsUsedTwice) {
  Prg random(Seed{1}, as_bytes("views"));
  Mirror mirror(params({2, 3}), Seed{2}, random);
  std::set<Seed> seen;
  for (int i = 0; i < 100; ++i)
    for (const ServerQuery& query : mirror.queries(7, 21, 3)) {
      if (query.seed) {
        EXPECT_TRUE(seen.insert(*query.seed).second);
      }
    }
  EXPECT_EQ(seen.size(), 200u);
}

EvictionPlan plan_of(const VolumeParams& volume, unsigned height, std::size_t blocks) {
  EvictionPath path{.eviction = 3, .height = height, .on_path = {}, .leaf_sibling = {}};
  path.on_path.resize(height + 1);
  for (std::size_t i = 0; i < blocks; ++i)
    path.on_path[1 + i % height].push_back(
        {.block = i, .slot = static_cast<std::uint16_t>(i / height), .leaf = i * 5, .version = 1});
  return plan_eviction(volume, path);
}

TEST(MirrorViews, OrdersAddUpToThePlanAndHaveOneShape) {
  Prg random(Seed{1}, as_bytes("views"));
  constexpr unsigned kHeight = 2;
  for (const Scheme scheme : {Scheme{1, 2}, Scheme{1, 3}, Scheme{2, 4}}) {
    const VolumeParams volume = params(scheme);
    Mirror mirror(volume, Seed{2}, random);
    EvictionId id{3, {}};
    random.fill(id.attempt);
    std::vector<std::size_t> shape;
    for (const std::size_t blocks : {0, 1, 4}) {
      const EvictionPlan plan = plan_of(volume, kHeight, blocks);
      const auto orders = mirror.orders(plan, id, kHeight, 1, 0, InStep(volume), random).messages;
      const auto selection = mirror::selection_of(volume, plan, kHeight, id.eviction);
      const std::size_t row = gf::bit_row(selection.size() + volume.evict_every);
      Bytes sum(selection.size() * row);
      std::vector<std::size_t> sizes;
      unsigned workers = 0;
      for (const Bytes& each : orders) {
        sizes.push_back(each.size());
        const auto own = decode<SelectionOrders>(each);
        ASSERT_TRUE(own);
        workers += own->mask.has_value();
        if (own->matrix_seed) Prg(*own->matrix_seed, as_bytes("selection")).add_to(sum);
        if (!own->matrix.empty()) gf::multiply_add(1, own->matrix, sum);
      }
      EXPECT_EQ(workers, scheme.threshold + 1u);
      std::size_t taken = 0;
      for (std::size_t place = 0; place < selection.size(); ++place)
        for (std::size_t old = 0; old < selection.size() + volume.evict_every; ++old) {
          const bool bit = sum[place * row + old / 8] >> old % 8 & 1;
          EXPECT_EQ(bit, selection[place] == std::optional<std::uint32_t>(old));
          taken += bit;
        }
      EXPECT_EQ(taken, blocks);
      if (shape.empty()) shape = sizes;
      EXPECT_EQ(sizes, shape) << "whichever rows are kept";
    }
  }
}

}  // namespace
}  // namespace s3oram
