// Handles the server's sessions, and the volume that it holds.
#include "serverd/ring/ring_server.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "oramcore/base/disk_room.h"
#include "oramcore/base/rules.h"
#include "oramcore/protocol/store_size.h"
#include "serverd/oram/room_report.h"

namespace s3oram::ring {

Server::Server(Control control, std::filesystem::path store, Party self,
               const ServerEnvironment& environment)
    : state_(std::move(control), std::move(store), self, environment),
      record_(environment.record),
      store_(state_),
      accesses_(state_, store_, record_),
      rewrites_(state_, store_, record_),
      lines_(state_),
      care_(state_.executor, self, state_.directory, state_.disk,
            {.still_there = [this] { return store_.still_there(); },
             .stop = [this](const Error&) { state_.open = false; },
             .quiet = [this] { return quiet(); },
             .reopen = [this] { return reopen(); }}) {}

Result<std::unique_ptr<ShareServer>> Server::open(const std::filesystem::path& store, Party self,
                                                  const ServerEnvironment& environment) {
  S3O_ASSIGN(auto control, open_control(store, environment.disk));
  return open(std::move(control), store, self, environment);
}

Result<std::unique_ptr<ShareServer>> Server::open(Control control,
                                                  const std::filesystem::path& store, Party self,
                                                  const ServerEnvironment& environment) {
  auto server = std::make_unique<Server>(std::move(control), store, self, environment);
  S3O_TRY(server->start());
  return std::unique_ptr<ShareServer>(std::move(server));
}

Status Server::start() {
  // (A volume of another scheme that no client has used makes room for this one.)
  const auto& volume = state_.control.volume();
  if (volume && (volume->params.is_ring() || is_used())) {
    if (!volume->params.is_ring() || volume->server != state_.self)
      return fail(Errc::wrong_volume, "store {} does not belong to server {} of a ring volume",
                  state_.directory.string(), state_.self);
    Status opened = open_store();
    if (!opened && opened.error().code != Errc::wrong_volume) return opened;
    if (!opened) care_.fall_ill(opened.error());
  }
  state_.rpc.serve([this](Party from, std::uint16_t type, Payload request) {
    return handle(from, static_cast<MessageType>(type), std::move(request));
  });
  return {};
}

Task<Status> Server::stop() {
  state_.rpc.stop();
  state_.open = false;
  while (running_ > 0) co_await idle_.wait();
  co_await care_.ended();
  if (!state_.bucket_store) co_return Status{};
  Status durable = co_await state_.sync->sync(state_.sync->begin());
  co_await state_.sync->ended();
  co_return durable;
}

void Server::set_cache_bytes(std::size_t bytes) {
  state_.cache_bytes = bytes;
  if (state_.bucket_store) state_.bucket_store->set_cache_bytes(bytes);
}

void Server::gauge() {
  state_.metrics.traffic_with(kClient, state_.transport.traffic(kClient));
  state_.metrics.tree_height.set(state_.control.volume() ? state_.control.height() : 0);
  struct stat slots {};
  if (::stat((state_.directory / RingStore::kSlots).c_str(), &slots) == 0)
    state_.metrics.store_bytes.set(static_cast<double>(slots.st_blocks) * 512);
  struct statvfs disk {};
  if (::statvfs(state_.directory.c_str(), &disk) == 0)
    state_.metrics.free_bytes.set(static_cast<double>(disk.f_bavail) *
                                  static_cast<double>(disk.f_frsize));
}

Task<Result<Bytes>> Server::handle(Party from, MessageType type, Payload request) {
  ++running_;
  const Duration begun = state_.clock.now();
  Result<Bytes> answer;
  if (from != kClient)
    answer = fail(Errc::bad_request, "only the client may send this request");
  else if (care_.ailment() && type != MessageType::hello)
    answer = fail(*care_.ailment());
  else
    answer = co_await dispatch(type, std::move(request));
  if (!answer && answer.error().code == Errc::damaged_vault) care_.fall_ill(answer.error());
  state_.metrics.handled(type, state_.clock.now() - begun, answer.has_value());
  if (--running_ == 0) idle_.notify_all();
  co_return answer;
}

Task<Result<Bytes>> Server::dispatch(MessageType type, Payload request) {
  switch (type) {
    case MessageType::hello:
      co_return hello();
    case MessageType::traffic:
      co_return traffic();
    case MessageType::probe:
      co_return lines_.probe(kClient, request);
    case MessageType::room:
      co_return room_report(state_);
    case MessageType::disk:
      co_return disk_report(state_);
    case MessageType::survey:
      co_return decoded<SurveyRequest>(request, &Server::survey);
    case MessageType::fits:
      co_return decoded<FitsRequest>(request, &Server::fits);
    case MessageType::create:
      co_return decoded<CreateRequest>(request, &Server::create);
    case MessageType::open:
      co_return co_await open_session(std::move(request));
    case MessageType::retrieve:
      co_return co_await in_session(std::move(request), accesses_, &RingAccesses::retrieve);
    case MessageType::write_root:
      co_return co_await in_session(std::move(request), accesses_, &RingAccesses::write_log);
    case MessageType::read_log:
      co_return co_await in_session(std::move(request), accesses_, &RingAccesses::read_log);
    case MessageType::layout:
      co_return co_await in_session(std::move(request), accesses_, &RingAccesses::layout);
    case MessageType::fetch_rows:
      co_return co_await in_session(std::move(request), rewrites_, &RingRewrites::fetch_rows);
    case MessageType::check:
      co_return co_await in_session(std::move(request), rewrites_, &RingRewrites::check);
    case MessageType::store_rows:
      co_return co_await in_session(std::move(request), rewrites_, &RingRewrites::store_rows);
    case MessageType::prepare:
      co_return co_await in_session(std::move(request), rewrites_, &RingRewrites::prepare);
    case MessageType::commit:
      co_return co_await in_session(std::move(request), rewrites_, &RingRewrites::commit);
    case MessageType::discard:
      co_return co_await in_session(std::move(request), rewrites_, &RingRewrites::discard);
    case MessageType::release:
      co_return co_await in_session(std::move(request), rewrites_, &RingRewrites::release);
    case MessageType::reserve:
      co_return co_await in_session(std::move(request), rewrites_, &RingRewrites::reserve);
    default:
      co_return fail(Errc::bad_request, "unknown request {}", static_cast<int>(type));
  }
}

Result<Bytes> Server::traffic() const {
  const Traffic counted = state_.transport.traffic(kClient);
  return encode(TrafficAnswer{{{kClient, counted.bytes_sent, counted.bytes_received}}});
}

Status Server::check_volume(const VolumeId& volume) const {
  if (state_.control.volume() && state_.control.volume()->id == volume) return {};
  return fail(Errc::wrong_volume, "server {} holds {}: start it with the store of this vault",
              state_.self, state_.control.volume() ? "another volume" : "no volume");
}

Result<Bytes> Server::survey(const SurveyRequest& request) {
  S3O_TRY(check_volume(request.volume));
  S3O_TRY(require_store());
  return encode(SurveyAnswer{.session = state_.control.session(),
                             .rewrites = state_.control.tree_version(),
                             .height = static_cast<std::uint8_t>(state_.control.height()),
                             .asked = store_.asked().turns()});
}

Result<bool> Server::takes(const VolumeDescription& volume) const {
  S3O_TRY(check_params(volume.params));
  const bool same = state_.control.volume() && state_.control.volume()->id == volume.id;
  if (state_.control.volume() && !same && is_used())
    return fail(Errc::wrong_volume,
                "server {} holds another volume, which is in use: give that server an empty store, "
                "or this vault another server",
                state_.self);
  if (!volume.params.is_ring() || volume.server != state_.self)
    return fail(Errc::bad_request, "this is server {} of a ring, but another one is wanted",
                state_.self);
  return !same;
}

Status Server::check_room(const VolumeParams& volume) const {
  const Status room =
      check_disk_room(state_.directory, store_bytes(volume, volume.first_height), kStoreFiles);
  if (room) return {};
  return fail(room.error().code, "server {}: {}", state_.self, room.error().message);
}

Result<Bytes> Server::fits(const FitsRequest& request) {
  S3O_ASSIGN(const bool free, takes(request.volume));
  if (free) S3O_TRY(check_room(request.volume.params));
  return done();
}

Result<Bytes> Server::create(const CreateRequest& request) {
  S3O_ASSIGN(const bool free, takes(request.volume));
  if (free) {
    S3O_TRY(check_room(request.volume.params));
    S3O_TRY(state_.control.create(request.volume));
    accesses_.forget();
  }
  if (free || !store_.is_open()) S3O_TRY(open_store());
  if (free)
    spdlog::info("new ring volume: Z={}, A={}, {}-byte blocks", store_.params().bucket_size,
                 store_.params().evict_every, store_.params().block_size);
  return done();
}

Status Server::take_session(const OpenRequest& request) {
  const Session& present = state_.control.session();
  const bool known = std::ranges::find(request.known, present) != request.known.end();
  const bool set_back =
      !request.known.empty() && std::ranges::all_of(request.known, [&](const Session& each) {
        return each.epoch > present.epoch;
      });
  if (!known && set_back)
    return fail(Errc::wrong_volume,
                "server {} has not seen the sessions since its epoch {}: its store was set back to "
                "an old state; put the newest one back",
                state_.self, present.epoch);
  if (!known && rule_holds(Rule::compare_and_set))
    return fail(Errc::stale_vault,
                "server {} was used since (epoch {}) by another copy of this vault: use the newest "
                "one",
                state_.self, present.epoch);
  const Turn asked = store_.asked().turns();
  const bool rebuilds = request.root.empty();  // a rebuild of a lost state knows no turns
  if (!rebuilds &&
      (request.tree_version < state_.control.tree_version() || request.root[0] < asked))
    return fail(Errc::stale_vault,
                "server {} was asked by {} turns and has {} rewrites, and this vault knows of {} "
                "and {}: it is an old copy, or has lost the end of its log; use the newest one",
                state_.self, asked, state_.control.tree_version(), request.root[0],
                request.tree_version);
  if (request.next.epoch <= present.epoch)
    return fail(Errc::bad_request, "an epoch must be newer than {}", present.epoch);
  return state_.control.set_session(request.next);
}

Task<Result<Bytes>> Server::open_session(Payload payload) {
  const auto request = decode<OpenRequest>(payload.body());
  if (!request || request->next.epoch == 0 || request->next.epoch >= kMostEpoch ||
      request->root.size() > 1)
    co_return malformed();
  S3O_CO_TRY(check_volume(request->volume));
  S3O_CO_TRY(require_store());
  if (state_.control.session() != request->next) {
    S3O_CO_TRY(take_session(*request));
    state_.open = false;
  }
  if (!state_.open) {
    // A request of the previous session must not end in the new session, which does not know it.
    while (state_.accesses > 0) co_await state_.handler_ended.wait();
    if (state_.control.session() != request->next)
      co_return fail(Errc::fenced, "epoch {} is over", request->next.epoch);
    state_.open = true;
    state_.opening = request->opening;
    rewrites_.drop_all();
  } else if (static_cast<std::int16_t>(request->opening - state_.opening) > 0) {
    state_.opening = request->opening;  // the client assumes a restart; a late copy changes nothing
  }
  co_return encode(OpenAnswer{state_.control.tree_version(), state_.control.prepared()});
}

// ---- the store

Status Server::open_store() {
  accesses_.forget();
  rewrites_.forget();
  S3O_TRY(store_.open());
  care_.get_well();
  return {};
}

Task<void> Server::quiet() {
  while (running_ > 0) co_await idle_.wait();
  if (state_.sync) co_await state_.sync->ended();
}

/// Opens the store as if the program had been restarted.
Status Server::reopen() {
  accesses_.forget();
  rewrites_.forget();
  S3O_TRY(store_.read_control_again());
  return open_store();
}

}  // namespace s3oram::ring
