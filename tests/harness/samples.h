// One message of every type, with no field at its default, and the same message as bytes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oramcore/net/rpc.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram::test {

inline Session sample_session(std::uint8_t tag) {
  Session session{.epoch = 0x0102030405060700u + tag};
  session.nonce.fill(tag);
  return session;
}

inline EvictionId sample_id() {
  EvictionId id{.eviction = 0x1112131415161718u};
  id.attempt.fill(0xa7);
  return id;
}

inline Seed sample_seed(std::uint8_t tag) {
  Seed seed;
  seed.fill(tag);
  return seed;
}

inline VolumeDescription sample_volume() {
  VolumeDescription volume;
  volume.id.fill(0x1d);
  volume.params = {.scheme = {2, 5},
                   .block_size = 0x00020304,
                   .bucket_size = 0x0051,
                   .evict_every = 0x0014,
                   .evictor = Evictor::shuffle,
                   .stash_slots = 0x00a2,
                   .privacy = Privacy::computational,
                   .first_height = 7};
  volume.server = 3;
  return volume;
}

/// The body of a message: what follows its header.
template <class T>
Bytes body_of(const T& message) {
  const Bytes encoded = encode(message);
  return Bytes(encoded.begin() + Rpc::kHeaderSize, encoded.end());
}

/// A message with its type erased, because code for every type of message compiles slowly.
struct Sample {
  Bytes body;
  std::string documented;  // the body in hexadecimal
  /// Decodes a body of this type and encodes it again; std::nullopt if it is refused.
  std::function<std::optional<Bytes>(ByteSpan)> copy;
};

/// Samples of every type of message and of answer.
inline std::vector<Sample> samples() {
  std::vector<Sample> all;
  const auto add = [&all]<class T>(const T& message, std::string documented) {
    all.push_back(
        {body_of(message), std::move(documented), [](ByteSpan bytes) -> std::optional<Bytes> {
           const auto decoded = decode<T>(bytes);
           if (!decoded) return std::nullopt;
           return body_of(*decoded);
         }});
  };
  static const Bytes content{0xc0, 0xc1, 0xc2, 0xc3, 0xc4};
  constexpr std::string_view kVolume =
      "1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d"
      "0205"
      "04030200"
      "5100"
      "1400"
      "01"
      "a200"
      "01"
      "07"
      "03";
  constexpr std::string_view kId =
      "1817161514131211"
      "a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7";
  constexpr std::string_view kSession1 =
      "0107060504030201"
      "01010101010101010101010101010101";
  constexpr std::string_view kSession2 =
      "0207060504030201"
      "02020202020202020202020202020202";
  constexpr std::string_view kSession3 =
      "0307060504030201"
      "03030303030303030303030303030303";
  constexpr std::string_view kEpoch = "0807060504030201";
  constexpr std::string_view kContent =
      "05000000"
      "c0c1c2c3c4";
  constexpr std::uint64_t kEpochNumber = 0x0102030405060708;
  constexpr std::string_view kRequestId = "9897969594939291";
  constexpr std::string_view kWritten = "7877767574737271";
  const auto seed_there = [](int tag) {
    std::string seed = "01";  // it is there
    for (std::size_t i = 0; i < Seed().size(); ++i) seed += fmt::format("{:02x}", tag);
    return seed;
  };
  const auto hex = [](const auto&... parts) {
    std::string text;
    for (const std::string_view part : {std::string_view(parts)...}) text += part;
    return text;
  };

  add(HelloRequest{}, std::string());
  add(HelloAnswer{3, sample_volume()}, hex("03", "01", kVolume));
  add(HelloAnswer{3, std::nullopt}, hex("03", "00"));
  add(RoomRequest{}, std::string());
  add(RoomAnswer{0x0c}, std::string("0c"));
  add(DiskRequest{}, std::string());
  add(DiskAnswer{true}, std::string("01"));
  add(TrafficRequest{}, std::string());
  add(TrafficAnswer{{{2, 0x2122232425262728, 0x3132333435363738}}},
      hex("01000000", "02", "2827262524232221", "3837363534333231"));
  add(CreateRequest{sample_volume()}, hex(kVolume));
  add(OpenRequest{.volume = sample_volume().id,
                  .known = {sample_session(1), sample_session(2)},
                  .next = sample_session(3),
                  .tree_version = 0x2122232425262728,
                  .root = {0x5152535455565758},
                  .opening = 0x0e0f},
      hex(kVolume.substr(0, 32), "02000000", kSession1, kSession2, kSession3, "2827262524232221",
          "01000000", "5857565554535251", "0f0e"));
  add(OpenAnswer{0x2122232425262728, sample_id()}, hex("2827262524232221", "01", kId));
  add(OpenAnswer{0x2122232425262728, std::nullopt}, hex("2827262524232221", "00"));
  add(RetrieveRequest{.epoch = kEpochNumber,
                      .tree_version = 0x3132333435363738,
                      .height = 0x0c,
                      .written = 0x7172737475767778,
                      .write_number = 0x8182838485868788,
                      .leaf = 0x4142434445,
                      .query = content,
                      .query_seed = sample_seed(7),
                      .sum = SumOrder{.request_id = 0x9192939495969798,
                                      .oldest = 0xa1a2a3a4a5a6a7a8,
                                      .aggregator = 0x02,
                                      .mask = sample_seed(8)}},
      hex(kEpoch, "3837363534333231", "0c", kWritten, "8887868584838281", "4544434241000000",
          kContent, seed_there(7), "01", kRequestId, "a8a7a6a5a4a3a2a1", "02", seed_there(8)));
  add(MaskedShareRequest{kEpochNumber, 0x9192939495969798, content},
      hex(kEpoch, kRequestId, kContent));
  add(WithdrawRequest{kEpochNumber, 0x9192939495969798}, hex(kEpoch, kRequestId));
  add(WriteRootRequest{.epoch = kEpochNumber,
                       .write_number = 0x8182838485868788,
                       .access = 0x5152535455565758,
                       .share = content,
                       .parts = {{.number = 3,
                                  .seed = sample_seed(9),
                                  .content = content,
                                  .digest = sample_seed(10)}},
                       .relay_to = 0x02},
      hex(kEpoch, "8887868584838281", "5857565554535251", kContent, "01000000", "03", seed_there(9),
          kContent, seed_there(10), "02"));
  add(RelayRequest{kEpochNumber, 0x8182838485868788, 0x5152535455565758, content},
      hex(kEpoch, "8887868584838281", "5857565554535251", kContent));
  add(PrepareRequest{.epoch = kEpochNumber,
                     .id = sample_id(),
                     .height = 0x0c,
                     .next_height = 0x0d,
                     .orders = content},
      hex(kEpoch, kId, "0c", "0d", kContent));
  add(ShuffleOrders{.first = sample_seed(1),
                    .second = {0x0203, 0x0405},
                    .third = sample_seed(2),
                    .mask_first = sample_seed(3),
                    .mask_second = sample_seed(4),
                    .line_of_1 = sample_seed(5),
                    .line_of_3 = sample_seed(6)},
      hex(seed_there(1), "02000000", "03020504", seed_there(2), seed_there(3), seed_there(4),
          seed_there(5), seed_there(6)));
  CheckedShuffleOrders checked{{.first = sample_seed(1),
                                .second = {0x203, 0x405},
                                .third = {},
                                .mask_first = {},
                                .mask_second = {},
                                .line_of_1 = {},
                                .line_of_3 = {}}};
  checked.check_1 = sample_seed(7);
  checked.check_3 = sample_seed(9);
  checked.first_server = 2;
  add(checked, hex(seed_there(1), "02000000", "03020504", "0000000000", seed_there(7), "00",
                   seed_there(9), "00", "02"));
  add(PrepareAnswer{content}, hex(kContent));
  add(CommitRequest{kEpochNumber, sample_id()}, hex(kEpoch, kId));
  add(DiscardRequest{kEpochNumber, sample_id()}, hex(kEpoch, kId));
  add(ReleaseRequest{kEpochNumber, sample_id()}, hex(kEpoch, kId));
  add(SubshareRequest{.epoch = kEpochNumber,
                      .id = sample_id(),
                      .step = 0x0607,
                      .tile = 0x08090a0b,
                      .share = content},
      hex(kEpoch, kId, "0706", "0b0a0908", kContent));
  add(ReserveRequest{kEpochNumber, 0x0d}, hex(kEpoch, "0d"));
  add(DamageRequest{kEpochNumber, 0x3132333435363738, 0x7172737475767778},
      hex(kEpoch, "3837363534333231", kWritten));
  LabelBytes label;
  label.fill(0xd5);
  constexpr std::string_view kLabel = "d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5d5";
  add(SurveyRequest{sample_volume().id}, std::string(kVolume.substr(0, 32)));
  add(SurveyAnswer{sample_session(1), 0x2122232425262728, 0x0c, sample_id(), {0x5152535455565758}},
      hex(kSession1, "2827262524232221", "0c", "01", kId, "01000000", "5857565554535251"));
  add(LabelsRequest{kEpochNumber, 0x3132333435363738, 0x6162636465666768},
      hex(kEpoch, "3837363534333231", "6867666564636261"));
  add(LabelsAnswer{{{0x0e0f, true, label}}}, hex("01000000", "0f0e", "01", kLabel));
  constexpr SlotAddress kSlot{0x6162636465666768, 0x0e0f};
  constexpr std::string_view kSlotBytes = "68676665646362610f0e";
  add(DamageAnswer{{kSlot}}, hex("01000000", kSlotBytes));
  add(ReadSlotRequest{kEpochNumber, 0x3132333435363738, kSlot},
      hex(kEpoch, "3837363534333231", kSlotBytes));
  add(HealSlotRequest{.epoch = kEpochNumber,
                      .tree_version = 0x3132333435363738,
                      .at = kSlot,
                      .access = 0x5152535455565758,
                      .share = content},
      hex(kEpoch, "3837363534333231", kSlotBytes, "5857565554535251", kContent));
  add(CheckRequest{kEpochNumber, 0x3132333435363738, 0x7172737475767778, 0x6162636465666768},
      hex(kEpoch, "3837363534333231", kWritten, "6867666564636261"));
  add(DigestsRequest{kEpochNumber, 0x3132333435363738, 0x6162636465666768, sample_seed(12)},
      hex(kEpoch, "3837363534333231", "6867666564636261", seed_there(12).substr(2)));
  add(DigestsAnswer{{{0x0e0f, {0xe1, 0xe2}}}}, hex("01000000", "0f0e", "02000000", "e1e2"));
  add(MarkPreparedRequest{kEpochNumber, sample_id(), sample_seed(13)},
      hex(kEpoch, kId, seed_there(13).substr(2)));
  add(MarkBucketsRequest{kEpochNumber, 0x3132333435363738, {{0x6162636465666768, sample_seed(13)}}},
      hex(kEpoch, "3837363534333231", "01000000", "6867666564636261", seed_there(13).substr(2)));
  Mark mark;
  mark.fill(0xe7);
  add(MarksAnswer{{mark, mark}},
      hex("02000000", "e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7", "e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7"));
  add(BucketMarksAnswer{{mark, std::nullopt}},
      hex("02000000", "01", "e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7", "00"));
  add(DisownRequest{kEpochNumber, 0x3132333435363738, 0x6162636465666768, {0x0e0f, 0x1011}},
      hex(kEpoch, "3837363534333231", "6867666564636261", "02000000", "0f0e", "1110"));
  add(ContributeRequest{.epoch = kEpochNumber,
                        .tree_version = 0x3132333435363738,
                        .request_id = 0x9192939495969798,
                        .oldest = 0xa1a2a3a4a5a6a7a8,
                        .at = kSlot,
                        .to = 0x03,
                        .helpers = {0x01, 0x02},
                        .masks = {sample_seed(11)}},
      hex(kEpoch, "3837363534333231", kRequestId, "a8a7a6a5a4a3a2a1", kSlotBytes, "03", "02000000",
          "0102", "01000000", seed_there(11).substr(2)));
  add(MendRequest{.epoch = kEpochNumber,
                  .tree_version = 0x3132333435363738,
                  .request_id = 0x9192939495969798,
                  .oldest = 0xa1a2a3a4a5a6a7a8,
                  .at = kSlot,
                  .access = 0x5152535455565758,
                  .helpers = {0x01, 0x02}},
      hex(kEpoch, "3837363534333231", kRequestId, "a8a7a6a5a4a3a2a1", kSlotBytes,
          "5857565554535251", "02000000", "0102"));
  add(LayoutRequest{kEpochNumber, 0x3132333435363738, 0x4142434445464748, 0x00070605},
      hex(kEpoch, "3837363534333231", "4847464544434241", "05060700"));
  const BucketShape shape{0x6162636465666768, 0x2122232425262728, 0x0e0f, 0x5152535455565758};
  constexpr std::string_view kShape = "686766656463626128272625242322210f0e015857565554535251";
  add(LayoutAnswer{{shape}}, hex("01000000", kShape));
  add(ReenrolRequest{.volume = sample_volume(),
                     .session = sample_session(1),
                     .tree_version = 0x3132333435363738,
                     .height = 0x0c,
                     .from = 0x4142434445464748,
                     .buckets = {shape},
                     .last = false},
      hex(kVolume, kSession1, "3837363534333231", "0c", "4847464544434241", "01000000", kShape,
          "00"));
  return all;
}

}  // namespace s3oram::test
