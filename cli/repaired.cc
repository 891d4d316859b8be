// Reports what a repair or a scrub has found, and waits for the scrub of a mounted vault.
#include "cli/repaired.h"

#include <fmt/ranges.h>

#include <iostream>
#include <thread>
#include <utility>
#include <vector>

#include "cli/mount_control.h"
#include "cli/status_text.h"
#include "cli/terminal.h"

namespace s3oram {
namespace {

constexpr std::chrono::milliseconds kLookAgain{200};

/// Returns the word for what a server holds of a slot.
std::string_view piece_of(const VolumeParams& params) { return params.is_ring() ? "row" : "share"; }

/// Returns a text such as "31 shares of server 2".
std::string shares_of(const VolumeParams& params, const std::map<Party, std::uint64_t>& by_server) {
  std::vector<std::string> all;
  for (const auto& [server, count] : by_server)
    all.push_back(fmt::format("{} {}{} of server {}", count, piece_of(params),
                              count == 1 ? "" : "s", server));
  return fmt::format("{}", fmt::join(all, ", "));
}

/// Says what is lost, and what may help.
Status report_lost(const Vault& vault, const RepairedVolume& repaired) {
  const std::uint64_t lost = repaired.lost;
  const bool ring = vault.config().params.is_ring();
  std::string said;  // a server that lies can say so, too
  if (!repaired.lost_at.empty())
    said = fmt::format(" (according to the servers, damaged there: {})",
                       shares_of(vault.config().params, repaired.lost_at));
  return fail(
      Errc::damaged_vault,
      "{}: {} damaged {}, and nothing was changed there{}: if there is a copy of the slots of {}, "
      "put it back and scrub again while the vault is not mounted: a mounted vault gives up "
      "damaged slots that it comes across",
      vault.directory().string(), lost == 1 ? "1 slot is" : fmt::format("{} slots are", lost),
      ring ? "beyond what the server can rebuild" : "at too many servers", said,
      ring ? "the server" : "one of them");
}

/// Returns what the daemon says that a scrub has found.
RepairedVolume found_by(const nlohmann::json& scrub) {
  RepairedVolume found;
  for (const auto& server : scrub.at("healed"))
    found.healed[server.at("server")] = server.at("shares");
  for (const auto& server : scrub.value("lost_at", nlohmann::json::array()))
    found.lost_at[server.at("server")] = server.at("shares");
  found.lost = scrub.at("lost_slots");
  found.unproven = scrub.value("unproven_buckets", std::uint64_t{0});
  found.hindrance = scrub.at("hindrance");
  return found;
}

}  // namespace

Status report_repair(const Vault& of, const std::set<unsigned>& servers,
                     const RepairedVolume& repaired) {
  const std::string vault = of.directory().string();
  if (!repaired.reenrolled.empty())
    std::cout << fmt::format("{}: server {} held nothing and has its place in the volume again\n",
                             vault, fmt::join(repaired.reenrolled, ", "));
  if (!repaired.healed.empty())
    std::cout << fmt::format("{}: damaged and healed: {}\n", vault,
                             shares_of(of.config().params, repaired.healed));
  if (!repaired.hindrance.empty())
    std::cerr << fmt::format(
        "s3oramfs: not all servers could send each other their shares ({}), so some went through "
        "this machine; nothing is lost by that; if s3oramfs status says that a line between "
        "servers is cut, see their logs, and s3oramfs-serverd peers\n",
        repaired.hindrance);
  if (repaired.unproven > 0)
    std::cerr << fmt::format(
        "s3oramfs: {}: there are no marks of {} that servers sent each other shares of, so a "
        "server "
        "that lied about them was not noticed: an eviction makes marks of the buckets that it "
        "writes\n",
        vault, repaired.unproven == 1 ? "1 bucket" : fmt::format("{} buckets", repaired.unproven));
  if (repaired.lost > 0) return report_lost(of, repaired);
  const VolumeParams& params = of.config().params;
  const std::string whose = params.is_ring()  ? "the server"
                            : servers.empty() ? "all servers"
                                              : fmt::format("server {}", fmt::join(servers, ", "));
  std::cout << fmt::format("{}: every {} of {} is intact\n", vault, piece_of(params), whose);
  return {};
}

Result<RepairedVolume> await_scrub(const Vault& vault, std::chrono::seconds timeout) {
  using std::chrono::steady_clock;
  const std::string directory = vault.directory().string();
  Progress progress("scrubbing " + directory);
  nlohmann::json looked_at;
  auto moved = steady_clock::now();
  while (true) {
    const auto status = ask_daemon(vault, "status", kStatusPatience);
    if (!status)
      return status.error().code == Errc::not_mounted
                 ? fail(Errc::not_mounted,
                        "{}: unmounted before everything was checked; scrub it again", directory)
                 : fail(status.error());
    const auto& scrub = status->at("scrub");
    if (const auto& failure = scrub.at("failure"); !failure.is_null())
      return fail(static_cast<Errc>(failure.at("code").get<int>()), "{}",
                  failure.at("message").get<std::string>());
    if (!scrub.at("running").get<bool>()) return found_by(scrub);
    if (std::exchange(looked_at, scrub.at("buckets_looked_at")) != scrub.at("buckets_looked_at"))
      moved = steady_clock::now();
    const auto problems = status_problems(nlohmann::ordered_json(*status));
    if (!problems.empty() && steady_clock::now() - moved >= timeout)
      return fail(Errc::unreachable, "{}: the scrub makes no progress: {}; its daemon keeps trying",
                  directory, fmt::join(problems, "; "));
    progress.update(fmt::format("{} of {} buckets", looked_at.dump(), scrub.at("buckets").dump()));
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace s3oram
