// Makes a server rejoin the volume, and has it sent what it lacks.
#include "oramcore/client/catch_up.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/client/reenrolment.h"

namespace s3oram {
namespace {

constexpr Duration kPatience = std::chrono::seconds(10);
// Leaves room for the root, too.
constexpr std::uint32_t kBucketsARequest = LayoutRequest::kMost / 2;

// While a server rejoins, no eviction begins, so a server that makes no progress must not take
// longer than this. The list of buckets comes from each source and goes to the server.
constexpr Duration kHeld = std::chrono::seconds(2);
constexpr std::uint64_t kSlowList = 4000;  // bytes per millisecond

Duration limit_of(const TreeState& tree, unsigned sources) {
  const std::uint64_t list = bucket_count(tree.height) * BucketShape::kMostEncoded;
  return kHeld + std::chrono::milliseconds((sources + 1) * list / kSlowList);
}

/// Returns what a server says about the tree, without buckets that cannot exist.
Buckets possible(Buckets told, const VolumeParams& params, unsigned height) {
  BucketIndex last = 0;
  std::erase_if(told, [&](const BucketShape& each) {
    const bool in_tree = each.bucket > kRoot && each.bucket <= bucket_count(height);
    const bool in_stash =
        each.bucket >= kStashBucket && each.bucket - kStashBucket < params.stash_buckets();
    if ((!in_tree && !in_stash) || each.bucket <= last) return true;
    last = each.bucket;
    return false;
  });
  return told;
}

/// Returns the entry for a bucket on which servers do not agree, because one of them lies. Under a
/// stamp that no server has, the bucket is copied and compared.
BucketShape disputed(BucketIndex bucket, const VolumeParams& params, Random& random) {
  return {bucket, bucket, params.bucket_size, random.u64()};
}

/// Returns the buckets that at least one of the two servers knows, ascending like their lists.
Buckets merged(const Buckets& one, const Buckets& other, const VolumeParams& params,
               Random& random) {
  Buckets all;
  auto a = one.begin(), b = other.begin();
  while (a != one.end() || b != other.end()) {
    const bool of_a = a != one.end() && (b == other.end() || a->bucket <= b->bucket);
    const bool of_b = b != other.end() && (a == one.end() || b->bucket <= a->bucket);
    if (of_a && of_b && *a == *b)
      all.push_back(*a);
    else
      all.push_back(disputed(of_a ? a->bucket : b->bucket, params, random));
    a += of_a;
    b += of_b;
  }
  return all;
}

/// Makes sure that no bucket shares the content of one that is missing or has other content.
void check_shared(Buckets& all, const VolumeParams& params, Random& random) {
  for (BucketShape& each : all) {
    if (each.first == each.bucket && each.stamp && each.slots == params.bucket_size) continue;
    const auto first = std::ranges::lower_bound(all, each.first, {}, &BucketShape::bucket);
    const bool shares = each.first < each.bucket && each.slots == params.bucket_size &&
                        first->bucket == each.first && first->first == each.first &&
                        first->stamp == each.stamp;
    if (!shares) each = disputed(each.bucket, params, random);
  }
}

}  // namespace

Task<Result<std::uint64_t>> rejoin(const ClientEnvironment& environment, Servers& servers,
                                   const VolumeParams& params, Rejoining rejoining) {
  const Duration until = environment.clock.now() + rejoining.limit;
  const auto left = [&] { return std::max(until - environment.clock.now(), Duration::zero()); };
  const Party server = rejoining.server;
  std::optional<Buckets> buckets;
  for (const Party source : rejoining.sources) {
    S3O_CO_ASSIGN(auto told,
                  co_await layout_at(servers, source, rejoining.session.epoch, rejoining.tree,
                                     params, LayoutRequest::kMost, left()));
    told = possible(std::move(told), params, rejoining.tree.height);
    if (buckets && told != *buckets)
      spdlog::error(
          "servers {} do not agree on which buckets exist: one of them lies, came back after a "
          "lie, or has an older version; buckets that differ are copied",
          fmt::join(rejoining.sources, ", "));
    buckets = buckets ? merged(*buckets, told, params, environment.random) : std::move(told);
  }
  check_shared(*buckets, params, environment.random);
  RejoinRequest request;
  request.volume = {servers.volume(), params, server};
  request.session = rejoining.session;
  request.tree_version = rejoining.tree.tree_version;
  request.height = static_cast<std::uint8_t>(rejoining.tree.height);
  request.root = std::move(rejoining.root);
  std::uint64_t missing = 0;
  do {
    take_part(*buckets, kBucketsARequest, request);
    S3O_CO_ASSIGN(auto answer, co_await servers.call_opened(server, RejoinRequest::kType,
                                                            encode(request), left()));
    const auto told = decode<RejoinAnswer>(answer.body());
    if (!told) co_return fail(Errc::corrupt, "server {} sent an invalid answer", server);
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

/// On success the server takes part in evictions and in new root writes from then on.
Task<Result<std::uint64_t>> CatchUp::take_up(Party server, const Session& session) {
  const TreeState& tree = owner_.tree();
  const std::uint16_t opening = servers_.opening(server);
  Rejoining rejoining{.server = server,
                      .sources = in_step_.workers(tree.tree_version, params_.workers()),
                      .session = session,
                      .tree = tree,
                      .root = owner_.root(),
                      .limit = limit_of(tree, params_.workers())};
  auto missing = co_await rejoin(environment_, servers_, params_, std::move(rejoining));
  if (missing && servers_.opening(server) != opening)
    missing = fail(Errc::unreachable, "server {} was replaced meanwhile", server);
  if (missing) in_step_.follow(server);
  co_return missing;
}

/// Opens the session. A server that has lost its store, or its shares, is first told about the
/// volume. A server may also have a session that was forgotten when vault.db was rebuilt.
Task<Status> CatchUp::open(Party server, const Session& session) {
  Status opened = co_await servers_.bring_back(server, kPatience);
  if (opened || opened.error().code != Errc::wrong_volume) co_return opened;
  opened = co_await servers_.bring_back_older(server, kPatience);
  if (opened || opened.error().code != Errc::wrong_volume) co_return opened;
  ReenrolRequest request;
  request.volume = {servers_.volume(), params_, server};
  request.session = session;
  request.tree_version = owner_.tree().tree_version;
  request.height = static_cast<std::uint8_t>(owner_.tree().height);
  S3O_CO_TRY(co_await servers_.reenrol(request, kPatience));
  spdlog::warn("server {} had lost its store, and is re-enrolled", server);
  co_return co_await servers_.bring_back(server, kPatience);
}

/// Copies until the server lacks nothing. Root writes that were under way without the server count
/// among those that it lacks.
Task<Status> CatchUp::copy(Party server) {
  S3O_CO_TRY(co_await owner_.await_writes());
  for (;;) {
    if (in_step_.of(server) != Standing::following)
      co_return fail(Errc::unreachable, "server {} no longer answers", server);
    S3O_CO_ASSIGN(const std::size_t slots, co_await owner_.copy_some(server));
    if (slots == 0) co_return Status{};
    progress_[server].copied += slots;
  }
}

}  // namespace s3oram
