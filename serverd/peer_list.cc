// Exchanges the address and key of another server.
#include "serverd/peer_list.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "serverd/store_files.h"

namespace s3oram {
namespace {

/// Returns the list with this server added or replaced. Errors: usage.
Result<std::vector<PeerAddress>> with(std::vector<PeerAddress> all, const PeerAddress& peer) {
  for (const PeerAddress& each : all)
    if (each.party != peer.party && (each.endpoint == peer.endpoint || each.key == peer.key))
      return fail(Errc::usage, "server {} already has that address or key", each.party);
  const auto found = std::ranges::find(all, peer.party, &PeerAddress::party);
  if (found == all.end())
    all.push_back(peer);
  else
    *found = peer;
  std::ranges::sort(all, {}, &PeerAddress::party);
  return all;
}

}  // namespace

Status PeerList::take(const std::string& text) {
  S3O_ASSIGN(const auto peer, parse_told_peer(text));
  if (peer.party == self_) return fail(Errc::usage, "{}: name another server", text);
  for (const std::string& option : options_.peers)
    if (const auto given = parse_peer(option); given && given->party == peer.party)
      return fail(Errc::usage,
                  "server {} is given by --peer, which would count again at the next start: change "
                  "it there",
                  peer.party);
  // Set the peer in the transport first: a server does not start if its file has a peer that the
  // transport refuses.
  S3O_TRY(transport_.set_peer(peer));
  return keep(peer);
}

Status PeerList::keep(const PeerAddress& peer) {
  S3O_ASSIGN(const auto lock, lock_files(options_.store));
  S3O_ASSIGN(auto known, read_peers(options_.store));
  const auto same = [&](const PeerAddress& each) { return to_text(each) == to_text(peer); };
  if (std::ranges::any_of(known, same)) return {};
  S3O_ASSIGN(const auto all, with(std::move(known), peer));
  S3O_TRY(write_peers(options_.store, all));
  spdlog::info("server {} is at {} from now on, as the client says", peer.party, peer.endpoint);
  return {};
}

}  // namespace s3oram
