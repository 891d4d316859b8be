// Reads the reports of a shuffle, and determines what they show (hop_reports.h).
#include "oramcore/schemes/s3oram/hop_reports.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oramcore/protocol/message_bounds.h"

namespace s3oram {
namespace {

template <class Report>
bool read_report(const VolumeParams& params, const EvictionOrders& orders, unsigned role,
                 std::span<const Payload> reports, Report& report,
                 std::vector<HopReceipt>& receipts) {
  const auto answer = decode<PrepareAnswer>(reports[orders.server_of(role) - 1u].body());
  if (!answer) return false;
  const std::size_t rows = orders.hops.pi_1.size();
  const std::size_t kept = rows - params.evict_every;
  std::size_t lists = 0;
  report.visit(rows, kept,
               [&](HopList&, std::size_t size) { lists += size * sizeof(gf128::Element); });
  if (answer->report.size() < lists) return false;
  auto unpacked = unpack<Report>(answer->report.first(lists), rows, kept);
  const ByteSpan rest = answer->report.subspan(lists);
  const std::size_t width = tile_width(params, rows);
  const std::size_t tiles = (params.slot_size() + width - 1) / width;
  const auto hops = static_cast<std::size_t>(
      std::ranges::count(kShuffleHops, role, [](const ShuffleHop& hop) { return hop.to; }));
  auto shown = unpack_receipts(rest, orders.shuffle.sign ? hops * tiles : 0);
  if (!unpacked || !shown) return false;
  report = std::move(*unpacked);
  receipts = std::move(*shown);
  return true;
}

/// Returns "what server 1 passed on to server 2", for each hop whose equation fails.
std::string failed_hops(const EvictionOrders& orders, const HopVerdict& verdict) {
  std::vector<std::string> failed;
  const auto add = [&](bool sound, unsigned from, unsigned to) {
    if (!sound)
      failed.push_back(fmt::format("what server {} passed on to server {}", orders.server_of(from),
                                   orders.server_of(to)));
  };
  add(verdict.first_to_second, 1, 2);
  if (verdict.first_to_second)
    add(verdict.second_to_third, 2, 3);  // otherwise the first hop explains it
  add(verdict.third_to_first, 3, 1);
  add(verdict.first_to_third, 1, 3);
  if (!verdict.audit) failed.push_back(fmt::format("the shares of server {}", orders.server_of(3)));
  return fmt::format("{}", fmt::join(failed, ", "));
}

}  // namespace

ShuffleReports read_reports(const VolumeParams& params, const EvictionOrders& orders,
                            std::span<const Payload> reports) {
  ShuffleReports read;
  auto& [of, receipts, none_of] = read;
  if (!read_report(params, orders, 1, reports, of.first, receipts[0]))
    none_of = orders.server_of(1);
  if (!read_report(params, orders, 2, reports, of.second, receipts[1]))
    none_of = orders.server_of(2);
  if (!read_report(params, orders, 3, reports, of.third, receipts[2]))
    none_of = orders.server_of(3);
  return read;
}

Status check_hops(const EvictionOrders& orders, const HopMasks& masks,
                  const ShuffleReports& reports) {
  if (reports.none_of != 0)
    return fail(Errc::servers_disagree,
                "server {} does not report what it passed on: it is faulty or lies",
                reports.none_of);
  const HopVerdict verdict = judge_hops(orders.hops, masks, reports.of);
  if (verdict.sound()) return {};
  return fail(
      Errc::servers_disagree,
      "the servers disagree on {}: one of them, the sender or another one, is faulty or lies",
      failed_hops(orders, verdict));
}

}  // namespace s3oram
