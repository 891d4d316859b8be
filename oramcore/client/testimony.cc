// Evaluates what servers say about their state (testimony.h).
#include "oramcore/client/testimony.h"

#include <algorithm>
#include <functional>

#include "oramcore/client/reconcile.h"

namespace s3oram {
namespace {

using Witnesses = std::vector<Party>;

using Says = std::function<bool(const SurveyAnswer&)>;

Witnesses saying(const std::vector<SurveyAnswer>& stand, const Says& says) {
  Witnesses found;
  for (std::size_t i = 0; i < stand.size(); ++i)
    if (says(stand[i])) found.push_back(static_cast<Party>(i + 1));
  return found;
}

Witnesses saying(const Stand& stand, const Says& says) {
  Witnesses found;
  for (const auto& [server, answer] : stand)
    if (says(answer)) found.push_back(server);
  return found;
}

}  // namespace

Status check_testimony(const std::vector<SurveyAnswer>& stand, const ClientState::Loaded& vault,
                       const VolumeParams& params) {
  constexpr auto kWhat =
      "that server is faulty or lies, or this vault is an old copy: use the newest one, and if "
      "this "
      "is it, have that server looked at";
  const unsigned threshold = params.scheme.threshold;
  const auto is_known = [&](const SurveyAnswer& each) {
    return std::ranges::find(vault.sessions, each.session) != vault.sessions.end();
  };
  // A server that was rolled back to an earlier session learns this when the session is opened at
  // it.
  const Witnesses others = saying(stand, [&](const SurveyAnswer& each) {
    return !is_known(each) && each.session.epoch >= vault.sessions.front().epoch;
  });
  const Witnesses ahead = saying(stand, [&](const SurveyAnswer& each) {
    return is_known(each) && each.tree_version > vault.tree.tree_version;
  });
  std::vector<SurveyAnswer> known = stand;
  std::erase_if(known, [&](const SurveyAnswer& each) { return !is_known(each); });
  if (ahead.size() > threshold || wrote_since(known, vault, params.evict_every, threshold))
    return fail(Errc::stale_vault,
                "the servers hold writes that this vault does not know: {}, or, if that is "
                "lost, s3oramfs restore",
                kBehindServers);
  if (!ahead.empty())
    return fail(
        Errc::servers_disagree,
        "server {} says that it has seen {} evictions, and this vault and the other servers "
        "know of {}: {}",
        ahead.front(), stand[ahead.front() - 1u].tree_version, vault.tree.tree_version, kWhat);
  if (others.size() > threshold)
    return fail(Errc::stale_vault,
                "another copy of this vault has used the volume since (epoch {}): use the newest "
                "copy, or, if that is lost, s3oramfs restore",
                stand[others.front() - 1u].session.epoch);
  if (!others.empty())
    return fail(Errc::servers_disagree,
                "server {} says that another copy of this vault has used it (epoch {}), and the "
                "other servers know of none: {}",
                others.front(), stand[others.front() - 1u].session.epoch, kWhat);
  return {};
}

Result<std::uint64_t> believed_tree_version(const Stand& stand, const VolumeParams& params) {
  const unsigned threshold = params.scheme.threshold;
  std::vector<std::uint64_t> reached;
  for (const auto& [server, answer] : stand) reached.push_back(answer.tree_version);
  std::ranges::sort(reached, std::greater{});
  const std::uint64_t agreed = reached[threshold];
  const Witnesses asked = saying(stand, [&](const SurveyAnswer& each) {
    return !params.is_mirror() || each.tree_version >= agreed;
  });
  const auto has_prepared = [&](Party server) {
    const SurveyAnswer& each = stand.at(server);
    return each.tree_version > agreed || (each.prepared && each.prepared->eviction == agreed);
  };
  Witnesses unprepared = asked;
  std::erase_if(unprepared, has_prepared);
  const Witnesses ahead = saying(stand, [&](const SurveyAnswer& each) {
    return each.tree_version > agreed + (unprepared.empty() ? 1 : 0);
  });
  if (ahead.empty()) return agreed;
  const bool may_be_right = std::ranges::all_of(
      ahead, [&](Party server) { return stand.at(server).tree_version == agreed + 1; });
  if (may_be_right && !unprepared.empty() && unprepared.size() <= threshold)
    return fail(Errc::servers_disagree,
                "server {} says that it has seen {} evictions, and server {} that it has not "
                "prepared the last of them: one of servers {} and {} is faulty or lies; nothing "
                "was changed; have both looked at before anything is done about the others",
                ahead.front(), agreed + 1, unprepared.front(), ahead.front(), unprepared.front());
  return fail(Errc::servers_disagree,
              "server {} says that it has seen {} evictions, and {} servers know of {}: it is "
              "faulty or lies; nothing was changed; have it looked at before anything is done "
              "about the others",
              ahead.front(), stand.at(ahead.front()).tree_version, threshold + 1, agreed);
}

Result<unsigned> believed_height(const Stand& stand, unsigned threshold) {
  std::optional<unsigned> believed;
  for (const auto& [server, answer] : stand) {
    const unsigned height = answer.height;
    const Witnesses same =
        saying(stand, [&](const SurveyAnswer& each) { return each.height == height; });
    if (same.size() > threshold) believed = height;
  }
  for (const auto& [server, answer] : stand)
    if (answer.height != believed)
      return fail(Errc::servers_disagree,
                  "server {} says that its tree has height {}, and {}: one of the servers is "
                  "faulty or lies; have them looked at",
                  server, answer.height,
                  believed ? fmt::format("{} servers say {}", threshold + 1, *believed)
                           : "no other says so");
  return *believed;
}

}  // namespace s3oram
