// Reads the reports of a shuffle, and says what they show (hop_reports.h).
#include "oramcore/schemes/s3oram/hop_reports.h"

#include <fmt/ranges.h>

namespace s3oram {
namespace {

template <class Report>
Status read_report(const EvictionOrders& orders, unsigned role, std::size_t kept,
                   std::span<const Payload> reports, Report& report) {
  const Party server = orders.server_of(role);
  const auto answer = decode<PrepareAnswer>(reports[server - 1u].body());
  auto unpacked = answer ? unpack<Report>(answer->report, orders.hops.pi_1.size(), kept)
                         : std::optional<Report>();
  if (!unpacked)
    return fail(Errc::servers_disagree, "server {} does not report what it passed on", server);
  report = std::move(*unpacked);
  return {};
}

/// "what server 1 passed on to server 2", for each hop that does not hold.
std::string failed_hops(const EvictionOrders& orders, const HopVerdict& verdict) {
  std::vector<std::string> failed;
  const auto add = [&](bool sound, unsigned from, unsigned to) {
    if (!sound)
      failed.push_back(fmt::format("what server {} passed on to server {}", orders.server_of(from),
                                   orders.server_of(to)));
  };
  add(verdict.first_to_second, 1, 2);
  if (verdict.first_to_second) add(verdict.second_to_third, 2, 3);  // else that follows from it
  add(verdict.third_to_first, 3, 1);
  add(verdict.first_to_third, 1, 3);
  if (!verdict.audit) failed.push_back(fmt::format("the shares of server {}", orders.server_of(3)));
  return fmt::format("{}", fmt::join(failed, ", "));
}

}  // namespace

Status check_hops(const EvictionOrders& orders, const HopMasks& masks,
                  std::span<const Payload> reports) {
  const std::size_t kept = masks.first_to_third.size();
  HopReports of;
  S3O_TRY(read_report(orders, 1, kept, reports, of.first));
  S3O_TRY(read_report(orders, 2, kept, reports, of.second));
  S3O_TRY(read_report(orders, 3, kept, reports, of.third));
  const HopVerdict verdict = judge_hops(orders.hops, masks, of);
  if (verdict.sound()) return {};
  return fail(
      Errc::servers_disagree,
      "the servers disagree on {}: one of them is faulty or lies, the sender or another one",
      failed_hops(orders, verdict));
}

}  // namespace s3oram
