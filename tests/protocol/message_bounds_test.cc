// No message of the protocol is larger than the bound that is computed for its volume.
#include "oramcore/protocol/message_bounds.h"

#include <gtest/gtest.h>

#include "oramcore/net/transport.h"
#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/hop_check.h"
#include "oramcore/protocol/repair_messages.h"
#include "oramcore/protocol/sizing.h"

namespace s3oram {
namespace {

std::vector<VolumeParams> volumes() {
  std::vector<VolumeParams> all;
  for (const std::uint32_t block : {4u << 10, 64u << 10, 1u << 20}) {
    for (const Evictor evictor : {Evictor::shuffle, Evictor::matrix}) {
      for (const std::uint16_t every : {8, 20, 46, 128}) {
        Wishes wishes;
        wishes.scheme = {1, 3};
        wishes.evictor = evictor;
        wishes.block_size = block;
        wishes.evict_every = every;
        if (const auto choice = choose_params(wishes)) all.push_back(choice->params);
      }
    }
  }
  EXPECT_GT(all.size(), 15u);
  return all;
}

TEST(MessageBounds, HoldEveryMessage) {
  for (const VolumeParams& params : volumes()) {
    const std::size_t most = largest_message(params), z = params.bucket_size;
    SCOPED_TRACE(fmt::format("{} bytes, Z={}, A={}", params.block_size, z, params.evict_every));
    const Bytes share(params.slot_size());
    WriteRootRequest write;
    write.parts = {{1, Seed{}, {}, {}}, {2, Seed{}, {}, {}}, {3, {}, share, Digest{}}};
    EXPECT_LE(encode(write).size(), most);
    RelayRequest relay;
    relay.part = share;
    EXPECT_LE(encode(relay).size(), most);

    const std::size_t path = params.root_slots() + kMaxHeight * z;
    const Bytes query(path);
    RetrieveRequest retrieve;
    retrieve.query = query;
    retrieve.sum = SumOrder{0, 0, 1, Seed{}};
    EXPECT_LE(encode(retrieve).size(), most);

    const std::size_t rows = params.evictor == Evictor::shuffle ? path : z;
    const Bytes tile(rows * tile_width(params, rows));
    SubshareRequest subshare;
    subshare.share = tile;
    EXPECT_LE(encode(subshare).size(), most);

    CheckedShuffleOrders orders;
    orders.second.resize(path);
    orders.first = orders.third = orders.mask_first = orders.check_1 = orders.check_2 = Seed{};
    ThirdReport report;  // the largest of the three
    std::size_t digests_of_role = 0;
    report.visit(path, path, [&](HopList&, std::size_t size) { digests_of_role += size; });
    const Bytes lists(digests_of_role * sizeof(gf128::Element));
    if (params.evictor == Evictor::shuffle) {
      EXPECT_LE(encode(PrepareAnswer{lists}).size(), most);
    }
    const Bytes encoded =
        params.evictor == Evictor::shuffle ? encode(orders) : Bytes((kMaxHeight + 1) * 2 * z * z);
    PrepareRequest prepare;
    prepare.orders = encoded;
    EXPECT_LE(encode(prepare).size(), most);

    DigestsAnswer digests;
    digests.slots.assign(params.root_slots(), {0, Bytes(32)});
    EXPECT_LE(encode(digests).size(), most);
    LabelsAnswer labels;
    labels.slots.resize(params.root_slots());
    EXPECT_LE(encode(labels).size(), most);
    SurveyAnswer survey;
    survey.root.resize(params.root_buffer_slots());
    EXPECT_LE(encode(survey).size(), most);
  }
}

// Messages to and from a server that has no volume yet.
TEST(MessageBounds, HoldWhatBeginsAVolume) {
  ReenrolRequest reenrol;
  reenrol.buckets.assign(LayoutRequest::kMost, {1, 1, 1, 1});
  EXPECT_LE(encode(reenrol).size(), kLargestWithoutVolume);
  EXPECT_GT(encode(reenrol).size(),
            kLargestWithoutVolume / 2);  // otherwise there could be fewer, larger messages
  OpenRequest open;
  open.known.resize(1000);
  open.root.resize(2 * kMostEvictEvery);
  EXPECT_LE(encode(open).size(), kLargestWithoutVolume);
}

TEST(MessageBounds, AreSmallForOrdinaryVolumes) {
  for (const VolumeParams& params : volumes()) {
    if (params.evictor != Evictor::shuffle || params.evict_every > 46) continue;
    EXPECT_LE(largest_message(params), std::size_t{params.slot_size()} + (1 << 20))
        << params.block_size;
  }
}

}  // namespace
}  // namespace s3oram
