// Brings servers with lost stores back into a volume.
#include "oramcore/client/reenrolment.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "oramcore/client/in_step.h"
#include "oramcore/client/reconcile.h"

namespace s3oram {
namespace {

/// Words an error for the user who started the repair.
Error explain(Party server, Error error) {
  if (error.code == Errc::need_open)
    return {Errc::unreachable, fmt::format("server {} was restarted: begin again", server)};
  if (error.code != Errc::bad_request) return error;
  return {Errc::unsupported,
          fmt::format("server {} cannot take part in a repair ({}): does it have an older version?",
                      server, error.message)};
}

}  // namespace

Status merge_layouts(Buckets& all, const Buckets& other) {
  bool equal = all.size() == other.size();
  for (std::size_t i = 0; equal && i < all.size(); ++i) {
    BucketShape& one = all[i];
    const BucketShape& same = other[i];
    if (!one.stamp) one.stamp = same.stamp;
    equal = one.bucket == same.bucket && one.first == same.first && one.slots == same.slots &&
            (!same.stamp || one.stamp == same.stamp);
  }
  if (equal) return {};
  return fail(Errc::corrupt, "the other servers do not agree on which buckets exist");
}

void take_part(const Buckets& buckets, std::uint32_t part, ReenrolRequest& request) {
  const auto rest = std::span(buckets).subspan(request.from);
  const auto taken = rest.first(std::min<std::size_t>(rest.size(), part));
  request.buckets.assign(taken.begin(), taken.end());
  request.last = taken.size() == rest.size();
}

Status Reenrolment::check_enough(const VolumeParams& params, std::size_t lost) {
  const std::size_t most = params.scheme.servers - params.enough();
  if (lost <= most) return {};
  return fail(Errc::damaged_vault,
              "the stores of {} servers are lost: of {}, the shares of at most {} can be rebuilt",
              lost, params.scheme.servers, most);
}

Reenrolment::Reenrolment(const ClientEnvironment& environment, const VolumeId& volume,
                         const VolumeParams& params, ClientState& state, std::uint32_t part)
    : environment_(environment),
      volume_(volume),
      params_(params),
      state_(state),
      part_(part),
      servers_(environment.executor, environment.clock, environment.random, environment.transport,
               volume, params.scheme.servers, params.scheme.threshold) {}

Task<Status> Reenrolment::run(std::set<Party> lost, Duration patience) {
  S3O_CO_TRY(check_enough(params_, lost.size()));
  auto loaded = co_await offload(environment_.database, [this] { return state_.load(params_); });
  if (!loaded) co_return fail(loaded.error());
  tree_ = loaded->tree;
  session_.epoch = loaded->sessions.back().epoch + 1;
  environment_.random.fill(session_.nonce);
  S3O_CO_TRY(
      co_await offload(environment_.database, [this] { return state_.add_session(session_); }));
  for (const AccessRecord& access_record : loaded->access_records)
    if (access_record.write_number < tree_.written) root_.push_back(access_record.access);
  // A server that a mirror has left out may be behind (in_step.h).
  std::set<Party> without = lost;
  without.insert(loaded->left_out.begin(), loaded->left_out.end());
  S3O_CO_TRY(check_enough(params_, without.size()));
  S3O_CO_ASSIGN(const auto absent, co_await find_absent(without, patience));
  without.insert(absent.begin(), absent.end());
  S3O_CO_TRY(co_await open(without, std::move(loaded->sessions), patience));
  S3O_CO_ASSIGN(auto buckets, co_await layout(without, patience));
  for (const Party server : lost) S3O_CO_TRY(co_await tell(server, buckets, patience));
  co_return Status{};
}

Task<Status> Reenrolment::check_present(std::set<Party> unfit, Duration patience) {
  auto loaded = co_await offload(environment_.database, [this] { return state_.load(params_); });
  if (!loaded) co_return fail(loaded.error());
  unfit.insert(loaded->left_out.begin(), loaded->left_out.end());
  S3O_CO_TRY(co_await find_absent(unfit, patience));
  co_return Status{};
}

/// Returns which servers other than these do not answer. Only a mirror can do without them, and
/// only if the rest can vouch for each other. Otherwise one server's word would count while another
/// server has all data, too.
Task<Result<std::set<Party>>> Reenrolment::find_absent(const std::set<Party>& without,
                                                       Duration patience) {
  InStep in_step(params_);
  if (!in_step.may_shrink()) co_return std::set<Party>();
  in_step.load(without);
  const auto enough = [&](const std::set<Party>& some) { return in_step.may_open(some); };
  const auto answering = co_await servers_.roll_call(enough, patience);
  std::set<Party> absent;
  for (const Party server : in_step.members())
    if (!answering.contains(server)) absent.insert(server);
  if (absent.empty() || enough(answering)) co_return absent;
  co_return fail(Errc::unreachable,
                 "no answer from server {}: a store is rebuilt without it only if {} servers "
                 "answer, and {} of them have all data; if its store is lost, too, start it with "
                 "an empty one, and repair both",
                 fmt::join(absent, " and server "), in_step.least(), in_step.needed());
}

Task<Status> Reenrolment::open(const std::set<Party>& lost, std::vector<Session> known,
                               Duration patience) {
  std::function<void(OpenRequest&)> present = [this](OpenRequest& request) {
    request.tree_version = tree_.tree_version;
    request.root = root_;
  };
  Servers::Reconcile reconcile = [this](Party server, OpenAnswer answer, Duration limit) {
    return bring_along(servers_, server, answer, tree_, {}, session_.epoch, limit);
  };
  co_return co_await servers_.open(std::move(known), session_, std::move(present),
                                   std::move(reconcile), patience, lost);
}

/// Asks all servers except the lost ones for the buckets.
Task<Result<Buckets>> Reenrolment::layout(const std::set<Party>& lost, Duration patience) {
  std::optional<Buckets> all;
  for (Party server = 1; server <= servers_.count(); ++server) {
    if (lost.contains(server)) continue;
    S3O_CO_ASSIGN(auto its, co_await layout_at(servers_, server, session_.epoch, tree_, params_,
                                               part_, patience));
    if (!all)
      all = std::move(its);
    else if (Status merged = merge_layouts(*all, its); !merged)
      co_return fail(merged.error());
  }
  co_return std::move(*all);
}

Task<Result<Buckets>> layout_at(Servers& servers, Party server, std::uint64_t epoch,
                                const TreeState& tree, const VolumeParams& params,
                                std::uint32_t part, Duration patience) {
  const std::uint64_t most = bucket_count(tree.height) + params.stash_buckets();
  Buckets all;
  for (bool more = true; more;) {
    const LayoutRequest request{epoch, tree.tree_version, all.size(), part};
    auto answer =
        co_await servers.call_opened(server, LayoutRequest::kType, encode(request), patience);
    if (!answer) co_return fail(explain(server, std::move(answer).error()));
    const auto decoded = decode<LayoutAnswer>(answer->body());
    if (!decoded || decoded->buckets.size() > std::min<std::uint64_t>(part, most - all.size()))
      co_return fail(Errc::corrupt, "server {} sent an invalid answer", server);
    all.insert(all.end(), decoded->buckets.begin(), decoded->buckets.end());
    more = decoded->buckets.size() == part;
  }
  co_return std::move(all);
}

Task<Status> Reenrolment::tell(Party server, const Buckets& buckets, Duration patience) {
  ReenrolRequest request;
  request.volume = {volume_, params_, server};
  request.session = session_;
  request.tree_version = tree_.tree_version;
  request.height = static_cast<std::uint8_t>(tree_.height);
  do {
    take_part(buckets, part_, request);
    if (auto reenrolled = co_await servers_.reenrol(request, patience); !reenrolled)
      co_return fail(explain(server, std::move(reenrolled).error()));
    request.from += request.buckets.size();
  } while (!request.last);
  co_return Status{};
}

}  // namespace s3oram
