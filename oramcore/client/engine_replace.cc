// Another machine, or an empty store, takes a server's place while the volume is open.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/client/engine.h"
#include "oramcore/client/reenrolment.h"

namespace s3oram {
namespace {

constexpr Duration kTells = std::chrono::seconds(5);
constexpr Duration kTellsAgain = std::chrono::seconds(1), kMostAgain = std::chrono::minutes(1);
constexpr Duration kDescribes = std::chrono::seconds(30);

}  // namespace

Task<Result<std::vector<Party>>> Engine::replace(Replacement replacement) {
  co_return co_await run(replace_now(std::move(replacement)));
}

Task<Result<std::vector<Party>>> Engine::replace_now(Replacement replacement) {
  if (dead_) co_return fail(*dead_);
  const Party server = replacement.server;
  if (in_step_.may_shrink()) {
    S3O_CO_TRY(co_await attendance_.replace(server, replacement.exchange));
  } else {
    servers_.expect_empty(server, [this](Party empty) { return reenrol(empty); });
    S3O_CO_TRY(replacement.exchange());
  }
  Bytes others;
  for (Party other = 1; other <= servers_.count(); ++other)
    if (other != server) others.push_back(other);
  const auto told = co_await for_each_of(
      others, [&](Party other) { return servers_.tell_of_peer(other, replacement.peer, kTells); });
  std::vector<Party> untold;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (told[i]) continue;
    spdlog::warn("server {} does not know yet that server {} was replaced: {}", others[i], server,
                 told[i].error().message);
    untold.push_back(others[i]);
    start(tell_later(others[i], replacement.peer));
  }
  co_return untold;
}

/// Until the server is told. One of an older version is told by its operator, and perhaps upgraded.
Task<void> Engine::tell_later(Party server, std::string peer) {
  for (Duration again = kTellsAgain; !servers_.stopped(); again = std::min(2 * again, kMostAgain)) {
    const Duration until = environment_.clock.now() + again;
    while (!servers_.stopped() && environment_.clock.now() < until)
      co_await environment_.clock.sleep(kTellsAgain);
    if (servers_.stopped()) co_return;
    const Status told = co_await servers_.tell_of_peer(server, peer, kTells);
    if (told) co_return;
  }
}

/// Servers::Reenrol, where all servers are needed. Whatever goes wrong may pass: the others may not
/// have installed yet what was decided.
Task<Status> Engine::reenrol(Party server) {
  ++enrolling_;
  Status told = co_await tell_of_volume(server);
  --enrolling_;
  contents_changed_ += told.has_value();  // an attempt that the former one had prepared is over
  stepped_.notify_all();
  if (told || dead_ || told.error().code == Errc::shutting_down) co_return told;
  co_return fail(Errc::failed, "{}", told.error().message);
}

Task<Status> Engine::tell_of_volume(Party server) {
  S3O_CO_TRY(co_await commit_until_done());
  const TreeState tree = tree_;
  std::optional<Buckets> buckets;
  for (Party other = 1; other <= servers_.count(); ++other) {
    if (other == server) continue;
    S3O_CO_ASSIGN(auto its, co_await layout_at(servers_, other, session_.epoch, tree, params_,
                                               LayoutRequest::kMost, kDescribes));
    if (!buckets)
      buckets = std::move(its);
    else
      S3O_CO_TRY(merge_layouts(*buckets, its));
  }
  ReenrolRequest request;
  request.volume = {servers_.volume(), params_, server};
  request.session = session_;
  request.tree_version = tree.tree_version;
  request.height = static_cast<std::uint8_t>(tree.height);
  do {
    take_part(*buckets, LayoutRequest::kMost, request);
    S3O_CO_TRY(co_await servers_.reenrol(request, kDescribes));
    request.from += request.buckets.size();
  } while (!request.last);
  spdlog::info("server {} held nothing, and is told of the volume", server);
  co_return Status{};
}

}  // namespace s3oram
