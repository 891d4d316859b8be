// Decodes every request and answer and encodes it again. Whatever decodes is exactly what was read,
// and whatever does not decode does no harm. The first byte says which type.
#include <array>

#include "oramcore/net/invitation.h"
#include "oramcore/protocol/hop_check.h"
#include "oramcore/protocol/repair_messages.h"
#include "oramcore/protocol/signed_hops.h"
#include "oramcore/schemes/ring/protocol/ring_messages.h"
#include "tests/fuzz/input.h"

namespace s3oram::fuzz {
namespace {

template <class Message>
void round_trip(ByteSpan bytes) {
  const auto message = decode<Message>(bytes);
  if (!message) return;
  const Bytes again = encode(*message);
  require(again.size() == Rpc::kHeaderSize + bytes.size(), "a message has one encoding (size)");
  require(std::equal(bytes.begin(), bytes.end(), again.begin() + Rpc::kHeaderSize),
          "a message has one encoding");
}

// A report, for paths of several heights.
template <class Report>
void report(ByteSpan bytes) {
  for (const std::size_t rows : {1, 7, 40})
    if (auto unpacked = unpack<Report>(bytes, rows, rows / 2))
      require(pack(*unpacked, rows, rows / 2) == Bytes(bytes.begin(), bytes.end()),
              "a report has one encoding");
}

void orders(ByteSpan bytes) { static_cast<void>(decode_any_shuffle_orders(bytes)); }

// A retrieval with workers, or one without, is the same when it is encoded as its own kind.
void retrieval(ByteSpan bytes) {
  const auto message = decode<SharedRetrieveRequest>(bytes);
  if (!message) return;
  const auto is_as_read = [&](const Bytes& again) {
    return again.size() == Rpc::kHeaderSize + bytes.size() &&
           std::equal(bytes.begin(), bytes.end(), again.begin() + Rpc::kHeaderSize);
  };
  require(is_as_read(encode(*message)) ||
              (message->workers.empty() &&
               is_as_read(encode(static_cast<const RetrieveRequest&>(*message)))),
          "a retrieval has one encoding");
}

void receipts(ByteSpan bytes) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{4}, bytes.size() / HopReceipt::kSize})
    if (const auto unpacked = unpack_receipts(bytes, count))
      require(unpacked->size() == count && pack(*unpacked) == Bytes(bytes.begin(), bytes.end()),
              "receipts have one encoding");
}

void selection(ByteSpan bytes) { static_cast<void>(decode_selection_orders(bytes, 3)); }

using Round = void (*)(ByteSpan);
constexpr Round kRounds[] = {
    round_trip<HelloAnswer>,
    round_trip<RoomAnswer>,
    round_trip<DiskAnswer>,
    round_trip<TrafficAnswer>,
    round_trip<CreateRequest>,
    round_trip<FitsRequest>,
    round_trip<OpenRequest>,
    round_trip<OpenAnswer>,
    round_trip<SumOrder>,
    round_trip<RetrieveRequest>,
    round_trip<MaskedShareRequest>,
    round_trip<WithdrawRequest>,
    round_trip<WriteRootRequest>,
    round_trip<RelayRequest>,
    round_trip<PrepareRequest>,
    round_trip<PrepareAnswer>,
    round_trip<ShuffleOrders>,
    round_trip<CheckedShuffleOrders>,
    round_trip<SelectionOrders>,
    round_trip<CertifyRequest>,
    round_trip<PeerRequest>,
    round_trip<CertifyAnswer>,
    round_trip<CommitRequest>,
    round_trip<SubshareRequest>,
    round_trip<ReserveRequest>,
    round_trip<DamageRequest>,
    round_trip<DamageAnswer>,
    round_trip<ReadSlotRequest>,
    round_trip<HealSlotRequest>,
    round_trip<CheckRequest>,
    round_trip<HeadsRequest>,
    round_trip<HeadsAnswer>,
    round_trip<DigestsRequest>,
    round_trip<DigestsAnswer>,
    round_trip<ContributeRequest>,
    round_trip<MendRequest>,
    round_trip<LayoutRequest>,
    round_trip<LayoutAnswer>,
    round_trip<ReenrolRequest>,
    round_trip<SurveyRequest>,
    round_trip<SurveyAnswer>,
    round_trip<LabelsRequest>,
    round_trip<LabelsAnswer>,
    round_trip<ring::SurveyAnswer>,
    round_trip<ring::RetrieveRequest>,
    round_trip<ring::RetrieveAnswer>,
    round_trip<ring::WriteLogRequest>,
    round_trip<ring::ReadLogRequest>,
    round_trip<ring::ReadLogAnswer>,
    round_trip<ring::FetchRowsRequest>,
    round_trip<ring::FetchRowsAnswer>,
    round_trip<ring::StoreRowsRequest>,
    round_trip<ring::PrepareRequest>,
    round_trip<ring::LayoutRequest>,
    round_trip<ring::LayoutAnswer>,
    round_trip<ring::CheckRequest>,
    round_trip<ring::CheckAnswer>,
    round_trip<GreetAnswer>,
    round_trip<PeersRequest>,
    report<FirstReport>,
    report<SecondReport>,
    report<ThirdReport>,
    orders,
    round_trip<ProbeRequest>,
    round_trip<ProbeAnswer>,
    round_trip<MeasureRequest>,
    round_trip<MeasureAnswer>,
    round_trip<MarkPreparedRequest>,
    round_trip<MarkBucketsRequest>,
    round_trip<MarksAnswer>,
    round_trip<DisownRequest>,
    round_trip<BucketMarksAnswer>,
    round_trip<LinesAnswer>,
    round_trip<RejoinRequest>,
    round_trip<RejoinAnswer>,
    retrieval,
    receipts,
    selection,
};

}  // namespace
}  // namespace s3oram::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  s3oram::fuzz::dispatch(s3oram::fuzz::kRounds, data, size);
  return 0;
}
