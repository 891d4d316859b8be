// Has a server rejoin the volume, and be sent what it lacks.
#include "oramcore/client/catch_up.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/client/reenrolment.h"

namespace s3oram {
namespace {

constexpr Duration kPatience = std::chrono::seconds(10);
constexpr std::uint32_t kPart = LayoutRequest::kMost / 2;  // there is room for the root, too

}  // namespace

Task<Result<std::uint64_t>> rejoin(Servers& servers, Party server, Bytes sources,
                                   const Session& session, TreeState tree,
                                   std::vector<std::uint64_t> root, const VolumeParams& params) {
  std::optional<Buckets> buckets;
  for (const Party source : sources) {
    S3O_CO_ASSIGN(auto its, co_await layout_at(servers, source, session.epoch, tree, params,
                                               LayoutRequest::kMost, kPatience));
    if (!buckets)
      buckets = std::move(its);
    else
      S3O_CO_TRY(merge_layouts(*buckets, its));
  }
  RejoinRequest request;
  request.volume = {servers.volume(), params, server};
  request.session = session;
  request.tree_version = tree.tree_version;
  request.height = static_cast<std::uint8_t>(tree.height);
  request.root = std::move(root);
  std::uint64_t missing = 0;
  do {
    take_part(*buckets, kPart, request);
    S3O_CO_ASSIGN(auto answer, co_await servers.call_opened(server, RejoinRequest::kType,
                                                            encode(request), kPatience));
    const auto told = decode<RejoinAnswer>(answer.body());
    if (!told) co_return fail(Errc::corrupt, "server {} answers nonsense", server);
    missing = told->missing;
    request.from += request.buckets.size();
  } while (!request.last);
  spdlog::info("server {} answers again and lacks {} of {} buckets", server, missing,
               buckets->size());
  co_return missing;
}

Task<Status> CatchUp::run(Party server, const Session& session) {
  S3O_CO_TRY(co_await open(server, session));
  co_await owner_.hold_evictions();
  const TreeState& tree = owner_.tree();
  const Bytes sources = in_step_.workers(tree.tree_version, 2);
  const auto missing =
      co_await rejoin(servers_, server, sources, session, tree, owner_.root(), params_);
  // From here on it takes part in evictions, and in root writes that begin.
  if (missing) in_step_.follow(server);
  owner_.let_evict();
  if (!missing) co_return fail(missing.error());
  progress_[server].missing = *missing;
  Status copied = co_await copy(server);
  progress_.erase(server);
  co_return copied;
}

/// A server that has lost its store, or its shares, is told of the volume first.
Task<Status> CatchUp::open(Party server, const Session& session) {
  Status opened = co_await servers_.bring_back(server, kPatience);
  if (opened || opened.error().code != Errc::wrong_volume) co_return opened;
  ReenrolRequest request;
  request.volume = {servers_.volume(), params_, server};
  request.session = session;
  request.tree_version = owner_.tree().tree_version;
  request.height = static_cast<std::uint8_t>(owner_.tree().height);
  S3O_CO_TRY(co_await servers_.reenrol(request, kPatience));
  spdlog::warn("server {} had lost its store, and takes its place again", server);
  co_return co_await servers_.bring_back(server, kPatience);
}

/// Root writes that were under way without the server count among those that it lacks.
Task<Status> CatchUp::copy(Party server) {
  S3O_CO_TRY(co_await owner_.await_writes());
  for (;;) {
    if (in_step_.of(server) != Standing::following)
      co_return fail(Errc::unreachable, "server {} does not answer any more", server);
    S3O_CO_ASSIGN(const std::size_t slots, co_await owner_.copy_some(server));
    if (slots == 0) co_return Status{};
    progress_[server].copied += slots;
  }
}

}  // namespace s3oram
