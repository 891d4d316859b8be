// Replaces a server while accesses continue or wait.
#include "oramcore/client/replacer.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/client/reenrolment.h"

namespace s3oram {
namespace {

constexpr Duration kTells = std::chrono::seconds(5);
constexpr Duration kTellsAgain = std::chrono::seconds(1), kMostAgain = std::chrono::minutes(1);
constexpr Duration kDescribesWithin = std::chrono::seconds(30);

}  // namespace

Task<Result<std::vector<Party>>> Replacer::replace(VolumeEngine::Replacement replacement) {
  if (state_.dead) co_return fail(*state_.dead);
  const Party server = replacement.server;
  if (state_.in_step.may_shrink()) {
    S3O_CO_TRY(co_await attendance_.replace(server, replacement.exchange));
  } else {
    S3O_CO_TRY(replacement.exchange());
    state_.servers.expect_empty(server, [this](Party empty) { return reenrol(empty); });
  }
  Bytes others;
  for (Party other = 1; other <= state_.servers.count(); ++other)
    if (other != server) others.push_back(other);
  const auto told = co_await for_each_of(others, [&](Party other) {
    return state_.servers.tell_of_peer(other, replacement.peer, kTells);
  });
  std::vector<Party> untold;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (told[i]) continue;
    spdlog::warn("server {} does not know yet that server {} was replaced: {}", others[i], server,
                 told[i].error().message);
    untold.push_back(others[i]);
    state_.start(tell_later(others[i], replacement.peer));
  }
  co_return untold;
}

/// Tries until the server is told. An older version has to be told by its operator, and perhaps
/// upgraded.
Task<void> Replacer::tell_later(Party server, std::string peer) {
  for (Duration again = kTellsAgain; !state_.servers.stopped();
       again = std::min(2 * again, kMostAgain)) {
    const Duration until = state_.now() + again;
    while (!state_.servers.stopped() && state_.now() < until)
      co_await state_.environment.clock.sleep(kTellsAgain);
    if (state_.servers.stopped()) co_return;
    const Status told = co_await state_.servers.tell_of_peer(server, peer, kTells);
    if (told) co_return;
  }
}

/// Implements Servers::Reenrol for schemes that need all servers. Every error counts as one that
/// may pass, because the other servers may not have installed yet what was decided.
Task<Status> Replacer::reenrol(Party server) {
  gate_.begin_enrolling();
  Status told = co_await tell_of_volume(server);
  state_.contents.changed +=
      told.has_value();  // ends attempts that the previous server had prepared
  gate_.end_enrolling();
  if (told || state_.dead || told.error().code == Errc::shutting_down) co_return told;
  co_return fail(Errc::failed, "{}", told.error().message);
}

Task<Status> Replacer::tell_of_volume(Party server) {
  S3O_CO_TRY(co_await committer_.commit_until_done());
  const TreeState tree = state_.tree;
  std::optional<Buckets> buckets;
  for (Party other = 1; other <= state_.servers.count(); ++other) {
    if (other == server) continue;
    S3O_CO_ASSIGN(auto its,
                  co_await layout_at(state_.servers, other, state_.session.epoch, tree,
                                     state_.params, LayoutRequest::kMost, kDescribesWithin));
    if (!buckets)
      buckets = std::move(its);
    else
      S3O_CO_TRY(merge_layouts(*buckets, its));
  }
  ReenrolRequest request;
  request.volume = {state_.servers.volume(), state_.params, server};
  request.session = state_.session;
  request.tree_version = tree.tree_version;
  request.height = static_cast<std::uint8_t>(tree.height);
  do {
    take_part(*buckets, LayoutRequest::kMost, request);
    S3O_CO_TRY(co_await state_.servers.reenrol(request, kDescribesWithin));
    request.from += request.buckets.size();
  } while (!request.last);
  spdlog::info("server {} held nothing, and was told about the volume", server);
  co_return Status{};
}

}  // namespace s3oram
