// Has a server rejoin the volume, and be sent what it lacks.
#include "oramcore/client/catch_up.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/client/reenrolment.h"

namespace s3oram {
namespace {

constexpr Duration kPatience = std::chrono::seconds(10);
constexpr std::uint32_t kPart = LayoutRequest::kMost / 2;  // there is room for the root, too

// While a server rejoins, no eviction begins: one that does not get on must not hold them up. Its
// list of buckets comes from two servers, and goes to it.
constexpr Duration kHeld = std::chrono::seconds(2);
constexpr std::uint64_t kListBytes = 3 * BucketShape::kMostEncoded, kSlowList = 4000;  // a ms

Duration limit_of(const TreeState& tree) {
  return kHeld + std::chrono::milliseconds(bucket_count(tree.height) * kListBytes / kSlowList);
}

/// Sources that show a bucket under different stamps: one of them lies. Under a stamp that nobody
/// has, it is copied, and compared.
Status add_layout(Buckets& all, const Buckets& other, Random& random) {
  Buckets alike = other;
  for (std::size_t i = 0; i < std::min(all.size(), alike.size()); ++i)
    if (all[i].stamp && alike[i].stamp && all[i].stamp != alike[i].stamp)
      alike[i].stamp = all[i].stamp = random.u64();
  return merge_layouts(all, alike);
}

}  // namespace

Task<Result<std::uint64_t>> rejoin(const ClientEnvironment& environment, Servers& servers,
                                   const VolumeParams& params, Rejoining rejoining) {
  const Duration until = environment.clock.now() + rejoining.limit;
  const auto left = [&] { return std::max(until - environment.clock.now(), Duration::zero()); };
  const Party server = rejoining.server;
  std::optional<Buckets> buckets;
  for (const Party source : rejoining.sources) {
    S3O_CO_ASSIGN(auto its,
                  co_await layout_at(servers, source, rejoining.session.epoch, rejoining.tree,
                                     params, LayoutRequest::kMost, left()));
    if (!buckets)
      buckets = std::move(its);
    else if (Status added = add_layout(*buckets, its, environment.random); !added)
      co_return fail(added.error().code, "servers {}: {}", fmt::join(rejoining.sources, " and "),
                     added.error().message);
  }
  RejoinRequest request;
  request.volume = {servers.volume(), params, server};
  request.session = rejoining.session;
  request.tree_version = rejoining.tree.tree_version;
  request.height = static_cast<std::uint8_t>(rejoining.tree.height);
  request.root = std::move(rejoining.root);
  std::uint64_t missing = 0;
  do {
    take_part(*buckets, kPart, request);
    S3O_CO_ASSIGN(auto answer, co_await servers.call_opened(server, RejoinRequest::kType,
                                                            encode(request), left()));
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
  const auto missing = co_await take_up(server, session);
  owner_.let_evict();
  if (!missing) co_return fail(missing.error());
  progress_[server].missing = *missing;
  Status copied = co_await copy(server);
  progress_.erase(server);
  co_return copied;
}

/// From then on the server takes part in evictions, and in root writes that begin.
Task<Result<std::uint64_t>> CatchUp::take_up(Party server, const Session& session) {
  const TreeState& tree = owner_.tree();
  const std::uint16_t opening = servers_.opening(server);
  Rejoining rejoining{.server = server,
                      .sources = in_step_.workers(tree.tree_version, 2),
                      .session = session,
                      .tree = tree,
                      .root = owner_.root(),
                      .limit = limit_of(tree)};
  auto missing = co_await rejoin(environment_, servers_, params_, std::move(rejoining));
  if (missing && servers_.opening(server) != opening)
    missing = fail(Errc::unreachable, "server {} was exchanged meanwhile", server);
  if (missing) in_step_.follow(server);
  co_return missing;
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
