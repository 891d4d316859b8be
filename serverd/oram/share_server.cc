// Handles a server's requests, sessions and volume; see tree_server.h for the parts.
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "oramcore/base/disk_room.h"
#include "oramcore/base/human.h"
#include "oramcore/base/limits.h"
#include "oramcore/base/rules.h"
#include "oramcore/protocol/message_bounds.h"
#include "oramcore/protocol/store_size.h"
#include "serverd/oram/room_report.h"
#include "serverd/oram/tree_server.h"

namespace s3oram {
namespace {

static_assert(BucketVersion::kTrailer == VolumeParams::kStoredOverhead);

constexpr Duration kHangs = std::chrono::milliseconds(1500);

constexpr std::uint64_t kBucketMemory = 32;  // bytes for each bucket version in the table

Status check(const VolumeDescription& volume, Party self) {
  S3O_TRY(check_params(volume.params));
  if (volume.server != self || volume.server > volume.params.scheme.servers)
    return fail(Errc::bad_request, "this is server {}, not {}", self, volume.server);
  return {};
}

}  // namespace

Server::Server(Control control, std::filesystem::path store, Party self, ServerSchemes schemes,
               const ServerEnvironment& environment)
    : state_(std::move(control), std::move(store), self, environment),
      schemes_(std::move(schemes)),
      take_peer_(environment.take_peer),
      sums_(state_),
      retrieval_(state_, sums_),
      root_(state_),
      heal_(state_, sums_, root_),
      labels_(state_),
      marks_(state_),
      eviction_(state_, retrieval_),
      lines_(state_),
      care_(state_.executor, self, state_.directory, state_.disk,
            {.still_there = [this] { return still_there(); },
             .stop = [this](const Error& ailment) { end_all(ailment); },
             .quiet = [this] { return quiet(); },
             .reopen = [this] { return reopen(); }}) {}

Status Server::start() {
  S3O_TRY(open_bucket_versions(Shares::must_be_there));
  state_.rpc.serve([this](Party from, std::uint16_t type, Payload request) {
    return handle(from, static_cast<MessageType>(type), std::move(request));
  });
  return {};
}

Task<Status> Server::stop() {
  state_.rpc.stop();
  state_.open = false;
  state_.changed.notify_all();
  eviction_.cancel({Errc::shutting_down, "the server stops"});
  while (running_ > 0) co_await idle_.wait();
  co_await care_.ended();
  if (!state_.bucket_store) co_return Status{};
  Status durable = co_await state_.sync->sync(state_.sync->begin());
  // The failure of an earlier sync is reported immediately, while this sync is still under way.
  co_await state_.sync->ended();
  co_return durable;
}

void Server::set_cache_bytes(std::size_t bytes) {
  state_.cache_bytes = bytes;
  if (state_.bucket_store) state_.bucket_store->set_cache_bytes(bytes);
}

Task<Result<Bytes>> Server::handle(Party from, MessageType type, Payload request) {
  ++running_;
  const Duration begun = state_.clock.now();
  Result<Bytes> answer;
  if (care_.ailment() && !is_for_the_ill(type))
    answer = fail(*care_.ailment());
  else
    answer = co_await dispatch(from, type, std::move(request));
  if (!answer && answer.error().code == Errc::damaged_vault) care_.fall_ill(answer.error());
  state_.metrics.handled(type, state_.clock.now() - begun, answer.has_value());
  if (--running_ == 0) idle_.notify_all();
  co_return answer;
}

// NOLINTNEXTLINE(readability-function-size): two lines for each kind of request
Task<Result<Bytes>> Server::dispatch(Party from, MessageType type, Payload request) {
  const bool of_peers = type == MessageType::subshare || type == MessageType::masked_share ||
                        type == MessageType::relay;
  const bool of_anyone = type == MessageType::probe || type == MessageType::lines;
  if (!of_anyone && of_peers != (from != kClient))
    co_return fail(Errc::bad_request, "only {} may ask this", of_peers ? "a server" : "the client");
  switch (type) {
    case MessageType::hello:
      co_return hello();
    case MessageType::traffic:
      co_return traffic();
    case MessageType::probe:
      co_return lines_.probe(from, request);
    case MessageType::measure:
      co_return co_await lines_.measure(std::move(request));
    case MessageType::lines:
      co_return co_await peer_lines(state_, from);
    case MessageType::room:
      co_return room_report(state_);
    case MessageType::disk:
      co_return disk_report(state_);
    case MessageType::survey:
      co_return decoded<SurveyRequest>(request, &Server::survey);
    case MessageType::labels:
      co_return co_await in_session<LabelsRequest>(request, labels_, &ServerLabels::labels);
    case MessageType::fits:
      co_return decoded<FitsRequest>(request, &Server::fits);
    case MessageType::create:
      co_return decoded<CreateRequest>(request, &Server::create);
    case MessageType::peer:
      co_return decoded<PeerRequest>(request, &Server::peer);
    case MessageType::reenrol:
      co_return decoded<ReenrolRequest>(request, &Server::reenrol);
    case MessageType::layout:
      co_return co_await in_session<LayoutRequest>(request, labels_, &ServerLabels::layout);
    case MessageType::heads:
      co_return co_await in_session<HeadsRequest>(request, labels_, &ServerLabels::heads);
    case MessageType::certify:
      co_return co_await in_session<CertifyRequest>(request, eviction_, &ServerEviction::certify);
    case MessageType::digests:
      co_return co_await in_session<DigestsRequest>(request, labels_, &ServerLabels::digests);
    case MessageType::open:
      co_return co_await open_session(request);
    case MessageType::rejoin:
      co_return co_await rejoin(request);
    case MessageType::retrieve:
      co_return co_await in_session<SharedRetrieveRequest>(request, retrieval_,
                                                           &ServerRetrieval::retrieve);
    case MessageType::write_root:
      co_return co_await in_session<WriteRootRequest>(request, root_, &ServerRoot::write_root);
    case MessageType::prepare:
      co_return co_await in_session<PrepareRequest>(request, eviction_, &ServerEviction::prepare);
    case MessageType::commit:
      co_return co_await in_session<CommitRequest>(request, eviction_, &ServerEviction::commit);
    case MessageType::discard:
      co_return co_await in_session<DiscardRequest>(request, eviction_, &ServerEviction::discard);
    case MessageType::release:
      co_return co_await in_session<ReleaseRequest>(request, eviction_, &ServerEviction::release);
    case MessageType::reserve:
      co_return co_await in_session<ReserveRequest>(request, eviction_, &ServerEviction::reserve);
    case MessageType::damage:
      co_return co_await in_session<DamageRequest>(request, heal_, &ServerHeal::damage);
    case MessageType::read_slot:
      co_return co_await in_session<ReadSlotRequest>(request, heal_, &ServerHeal::read_slot);
    case MessageType::heal_slot:
      co_return co_await in_session<HealSlotRequest>(request, heal_, &ServerHeal::heal_slot);
    case MessageType::check:
      co_return co_await in_session<CheckRequest>(request, heal_, &ServerHeal::check);
    case MessageType::contribute:
      co_return co_await in_session<ContributeRequest>(request, heal_, &ServerHeal::contribute);
    case MessageType::mend:
      co_return co_await in_session<MendRequest>(request, heal_, &ServerHeal::mend);
    case MessageType::withdraw:
      co_return co_await in_session<WithdrawRequest>(request, sums_, &Sums::withdraw);
    case MessageType::mark_prepared:
      co_return co_await in_session<MarkPreparedRequest>(request, marks_,
                                                         &ServerMarks::mark_prepared);
    case MessageType::mark_buckets:
      co_return co_await in_session<MarkBucketsRequest>(request, marks_,
                                                        &ServerMarks::mark_buckets);
    case MessageType::disown:
      co_return co_await in_session<DisownRequest>(request, marks_, &ServerMarks::disown);
    case MessageType::subshare:
      co_return eviction_.subshare(from, request);
    case MessageType::masked_share:
      co_return co_await sums_.receive(from, request);
    case MessageType::relay:
      co_return co_await root_.receive(from, request);
    case MessageType::store_rows:
    case MessageType::fetch_rows:
    case MessageType::read_log:
      S3O_CO_TRY(state_.check_open());
      break;  // only the server of a ring handles these
  }
  co_return fail(Errc::bad_request, "unknown request {}", static_cast<int>(type));
}

// The client sends this to find out whether the server can do its part: if the disk hangs, every
// other request stays without an answer.
Result<Bytes> Server::traffic() const {
  const auto busy =
      state_.bucket_store ? state_.bucket_store->busy_for() : DiskWatch::Clock::duration::zero();
  if (busy >= kHangs)
    return fail(Errc::failed,
                "the disk of server {} hangs: it has not completed a request for {} s", state_.self,
                std::chrono::duration_cast<std::chrono::seconds>(busy).count());
  TrafficAnswer answer;
  const Party servers = state_.control.volume() ? state_.params().scheme.servers : Party{0};
  for (Party party = kClient; party <= servers; ++party) {
    if (party == state_.self) continue;
    const Traffic counted = state_.transport.traffic(party);
    answer.links.push_back({party, counted.bytes_sent, counted.bytes_received});
  }
  return encode(answer);
}

void Server::gauge() {
  const Party servers = state_.control.volume() ? state_.params().scheme.servers : Party{0};
  for (Party party = kClient; party <= servers; ++party)
    if (party != state_.self) state_.metrics.traffic_with(party, state_.transport.traffic(party));
  state_.metrics.damaged_buckets.set(static_cast<double>(state_.damaged.size()));
  state_.metrics.tree_height.set(state_.control.volume() ? state_.control.height() : 0);
  struct stat slots {};
  if (::stat((state_.directory / "slots").c_str(), &slots) == 0)
    state_.metrics.store_bytes.set(static_cast<double>(slots.st_blocks) * 512);
  struct statvfs disk {};
  if (::statvfs(state_.directory.c_str(), &disk) == 0)
    state_.metrics.free_bytes.set(static_cast<double>(disk.f_bavail) *
                                  static_cast<double>(disk.f_frsize));
}

Result<bool> Server::takes(const VolumeDescription& volume, unsigned height) const {
  S3O_TRY(s3oram::check(volume, state_.self));
  const bool same = state_.control.volume() && state_.control.volume()->id == volume.id;
  if (state_.control.volume() && !same && is_used())
    return fail(Errc::wrong_volume,
                "server {} holds another volume, which is in use: give that server an empty store, "
                "or this vault another server",
                state_.self);
  if (volume.params.is_ring())
    return fail(Errc::bad_request, "server {} cannot hold a ring{}", state_.self,
                state_.record.is_kept() ? " while it records what it reads (--record)" : "");
  if (const std::uint64_t table = kBucketMemory << (std::min(height, kMaxHeight) + 1);
      table > state_.memory)
    return fail(Errc::failed,
                "server {} needs {} of memory for a tree of height {}, and may use {}", state_.self,
                human_size(table), height, human_size(state_.memory));
  return !same;
}

/// Opens the files of an existing volume, unless they are open. The disk may have failed just after
/// the volume was made.
Result<Bytes> Server::opened(Shares shares) {
  if (care_.ailment() && (shares == Shares::must_be_there || !lacks_shares_))
    return fail(*care_.ailment());
  if (!state_.bucket_store) S3O_TRY(open_bucket_versions(shares));
  return done();
}

/// Checks that there is room for a new volume. An old volume that was never opened makes room for
/// it.
Status Server::check_room(const VolumeParams& volume) const {
  const std::uint64_t needed = store_bytes(volume, volume.first_height);
  std::error_code none;
  const auto kept = std::filesystem::file_size(state_.directory / "slots", none);
  const std::uint64_t more = needed - std::min(needed, none ? 0 : std::uint64_t{kept});
  const Status room = check_disk_room(state_.directory, more, 0);
  if (room) return {};
  return fail(room.error().code, "server {}: {}", state_.self, room.error().message);
}

Result<Bytes> Server::fits(const FitsRequest& request) {
  S3O_ASSIGN(const auto free, takes(request.volume, request.volume.params.first_height));
  if (free) S3O_TRY(check_room(request.volume.params));
  return done();
}

Result<Bytes> Server::peer(const PeerRequest& request) {
  S3O_TRY(check_volume(request.volume));
  if (!take_peer_) return fail(Errc::unsupported, "the servers of this volume have no addresses");
  S3O_TRY(take_peer_(std::string(request.peer.begin(), request.peer.end())));
  return done();
}

Result<Bytes> Server::create(const CreateRequest& request) {
  S3O_ASSIGN(const auto free, takes(request.volume, request.volume.params.first_height));
  if (!free) return opened(Shares::must_be_there);
  S3O_TRY(check_room(request.volume.params));
  S3O_TRY(state_.control.create(request.volume));
  S3O_TRY(open_bucket_versions(Shares::may_be_lost));
  spdlog::info("new volume: server {} of {}, Z={}, A={}, {}-byte blocks", state_.self,
               state_.params().scheme.servers, state_.params().bucket_size,
               state_.params().evict_every, state_.params().block_size);
  return done();
}

// The session is not open here yet, so no request meets the missing shares. A server that has lost
// only its shares keeps its place; its shares are repaired too.
Result<Bytes> Server::reenrol(const ReenrolRequest& request) {
  S3O_ASSIGN(const auto free, takes(request.volume, request.height));
  if (!free) return opened(Shares::may_be_lost);
  if (request.session.epoch == 0) return malformed();
  S3O_TRY(state_.control.reenrol(request));
  if (!request.last) return done();
  S3O_TRY(open_bucket_versions(Shares::may_be_lost));
  spdlog::warn("this is server {} of a volume in use, whose shares are to be rebuilt: {} buckets",
               state_.self, request.from + request.buckets.size());
  return done();
}

Status Server::check_volume(const VolumeId& volume) const {
  if (state_.control.volume() && state_.control.volume()->id == volume) return {};
  return fail(Errc::wrong_volume,
              "server {} holds {}: start it with the store of this vault's volume{}", state_.self,
              state_.control.volume() ? "another volume" : "no volume",
              state_.control.volume() ? "" : ", or, if that is lost, run s3oramfs repair");
}

Result<Bytes> Server::survey(const SurveyRequest& request) {
  S3O_TRY(check_volume(request.volume));
  return labels_.survey();
}

Task<Result<Bytes>> Server::open_session(const Payload& payload) {
  const auto decoded_request = decode<OpenRequest>(payload.body());
  if (!decoded_request || decoded_request->next.epoch == 0 ||
      decoded_request->next.epoch >= kMostEpoch)
    co_return malformed();
  const OpenRequest& request = *decoded_request;
  S3O_CO_TRY(check_volume(request.volume));
  if (!state_.bucket_store) S3O_CO_TRY(open_bucket_versions(Shares::must_be_there));
  if (care_.ailment()) co_return fail(*care_.ailment());
  const Session& present = state_.control.session();
  if (present != request.next) {
    const bool known =
        std::find(request.known.begin(), request.known.end(), present) != request.known.end();
    if (!known && !request.known.empty() &&
        std::all_of(request.known.begin(), request.known.end(),
                    [&](const Session& s) { return s.epoch > present.epoch; }))
      co_return fail(Errc::wrong_volume,
                     "server {} has not seen the sessions since its epoch {}: its store was set "
                     "back to an old state; put the newest one back",
                     state_.self, present.epoch);
    if (!known && rule_holds(Rule::compare_and_set))
      co_return fail(Errc::stale_vault,
                     "server {} was used since (epoch {}) by another copy of this vault: use the "
                     "newest one",
                     state_.self, present.epoch);
    // Refuse before this ends the session of the newest copy. (A rebuild has no state to compare.)
    if (request.tree_version < state_.control.tree_version() &&
        (request.tree_version > 0 || !request.root.empty()))
      co_return fail(
          Errc::stale_vault,
          "server {} has seen {} evictions and this vault {}: it is an old copy, or has lost the "
          "end of its log (vault.db-wal was damaged or removed); use the newest one",
          state_.self, state_.control.tree_version(), request.tree_version);
    if (request.next.epoch <= present.epoch)
      co_return fail(Errc::bad_request, "an epoch must be newer than {}", present.epoch);
    S3O_CO_TRY(state_.control.set_session(request.next));
    state_.open = false;
    eviction_.forget_early();
  }
  if (!state_.open) {
    // Requests of the earlier session must not end in the new session, which does not know them.
    co_await end_session(Errc::fenced, "a new session began");
    if (state_.control.session() != request.next)
      co_return fail(Errc::fenced, "epoch {} is over", request.next.epoch);
    state_.open = true;
    state_.opening = request.opening;
    rejoined_.reset();
    forget_messages();
    distrust_root(request);
  } else if (static_cast<std::int16_t>(request.opening - state_.opening) > 0) {
    state_.opening = request.opening;  // the client assumes a restart; a late copy changes nothing
  }
  co_return encode(OpenAnswer{state_.control.tree_version(), state_.control.prepared()});
}

Task<void> Server::end_session(Errc code, const char* why) {
  state_.open = false;
  state_.changed.notify_all();
  eviction_.cancel({code, why});
  while (state_.accesses + state_.evictions > 0) co_await state_.handler_ended.wait();
}

void Server::forget_messages() {
  sums_.forget_all();
  root_.forget_relayed();
}

// A request that began before this one must not end after it, because it belongs to another tree
// version, or the client has given up on it.
Task<Result<Bytes>> Server::rejoin(const Payload& payload) {
  const auto request = decode<RejoinRequest>(payload.body());
  if (!request || !state_.control.volume() || !state_.params().is_mirror() ||
      request->volume.id != state_.control.volume()->id ||
      request->volume.params != state_.params() || request->volume.server != state_.self)
    co_return malformed();
  S3O_CO_TRY(state_.check_session(request->session.epoch));
  if (payload.tag() != state_.opening)
    co_return fail(Errc::need_open, "the server was restarted meanwhile");
  if (rejoined_ != state_.opening && !request->last) S3O_CO_TRY(state_.control.rejoin(*request));
  if (rejoined_ != state_.opening && request->last) {
    co_await end_session(Errc::failed, "this server rejoins the volume");
    if (state_.open || state_.control.session() != request->session ||
        payload.tag() != state_.opening)
      co_return fail(Errc::need_open, "another session was opened meanwhile");
    eviction_.forget_early();
    state_.damaged.clear();
    S3O_CO_TRY(state_.control.rejoin(*request));
    S3O_CO_TRY(open_bucket_versions(Shares::may_be_lost));
    forget_messages();
    const unsigned every = state_.params().evict_every;
    state_.root_buffer.keep_only(first_write_number(request->tree_version, every), every,
                                 request->root);
    state_.open = true;
    rejoined_ = state_.opening;
    spdlog::info("this server rejoins the volume after {} evictions: {} of {} buckets are missing",
                 state_.control.tree_version(), state_.control.missing().size(),
                 state_.control.layout().size());
  }
  co_return encode(RejoinAnswer{state_.control.missing().size()});
}

void Server::distrust_root(const OpenRequest& request) {
  // The client may be one tree version ahead, if this server still has to install it. That does not
  // change the root buffer.
  if (request.tree_version - state_.control.tree_version() > 1 || !rule_holds(Rule::root_stamps))
    return;
  const unsigned every = state_.params().evict_every;
  state_.root_buffer.distrust(first_write_number(request.tree_version, every), every, request.root);
}

Result<std::unique_ptr<ShareServer>> ShareServer::open(const std::filesystem::path& store,
                                                       Party self, ServerSchemes schemes,
                                                       const ServerEnvironment& environment) {
  S3O_ASSIGN(auto control, open_control(store, environment.disk));
  return open_share_server(std::move(control), store, self, std::move(schemes), environment);
}

Result<std::unique_ptr<ShareServer>> open_share_server(Control control,
                                                       const std::filesystem::path& store,
                                                       Party self, ServerSchemes schemes,
                                                       const ServerEnvironment& environment) {
  auto server =
      std::make_unique<Server>(std::move(control), store, self, std::move(schemes), environment);
  S3O_TRY(server->start());
  return std::unique_ptr<ShareServer>(std::move(server));
}

}  // namespace s3oram
