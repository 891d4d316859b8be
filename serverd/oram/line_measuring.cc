// Answers probes, and sends probes to other servers.
#include "serverd/oram/line_measuring.h"

#include <algorithm>
#include <set>

#include "oramcore/net/line_probe.h"

namespace s3oram {
namespace {

/// The time that another server may take to answer a probe.
constexpr Duration kPatience = std::chrono::seconds(1);

}  // namespace

Result<Bytes> LineMeasuring::probe(Party from, const Payload& payload) const {
  const auto request = decode<ProbeRequest>(payload.body());
  if (!request || request->answer > (from == kClient ? ProbeRequest::kMost : 0u))
    return malformed();
  const Bytes padding(request->answer);
  return encode(ProbeAnswer{padding});
}

Task<Result<Bytes>> LineMeasuring::measure(Payload payload) {
  const auto request = decode<MeasureRequest>(payload.body());
  if (!request) co_return malformed();
  if (measuring_) co_return fail(Errc::vault_in_use, "its lines are already being measured");
  std::set<Party> others(request->servers.begin(), request->servers.end());
  others.erase(kClient);
  others.erase(state_.self);
  measuring_ = true;
  LineProbe probe(state_.executor, state_.clock,
                  [this](Party to, std::size_t bytes) { return carry(to, bytes); });
  constexpr std::chrono::milliseconds kMost(MeasureRequest::kMostMilliseconds);
  const LineProbe::Limits limits{
      .time = std::min(kMost, std::chrono::milliseconds(request->milliseconds)),
      .most_time = kMost,
      .bytes = MeasureRequest::kMostBytes,
      .message = ProbeRequest::kMost};
  const LineRate rate = co_await probe.run(Bytes(others.begin(), others.end()), limits);
  measuring_ = false;
  co_return encode(MeasureAnswer{static_cast<std::uint64_t>(rate.bytes_per_second)});
}

Task<bool> LineMeasuring::carry(Party to, std::size_t bytes) {
  const Bytes padding(bytes);
  auto answer = co_await state_.rpc.call(to, ProbeRequest::kType, encode(ProbeRequest{0, padding}),
                                         kPatience);
  co_return answer.has_value();
}

}  // namespace s3oram
