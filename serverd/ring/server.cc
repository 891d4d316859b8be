// The server's sessions, and the volume that it holds.
#include "serverd/ring/server.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "oramcore/base/disk_room.h"
#include "oramcore/base/rules.h"
#include "oramcore/protocol/store_size.h"

namespace s3oram::ring {
Server::Server(Control control, std::filesystem::path store, Party self,
               const ServerEnvironment& environment)
    : control_(std::move(control)),
      directory_(std::move(store)),
      self_(self),
      executor_(environment.executor),
      pool_(environment.pool),
      background_(environment.background),
      readers_(environment.readers),
      clock_(environment.clock),
      disk_(environment.disk),
      transport_(environment.transport),
      cache_bytes_(environment.cache_bytes),
      metrics_(environment.metrics),
      record_(environment.record),
      log_patience_(clock_),
      care_(executor_, self_, directory_, disk_,
            {.still_there = [this] { return still_there(); },
             .stop = [this](const Error&) { open_ = false; },
             .quiet = [this] { return quiet(); },
             .reopen = [this] { return reopen(); }}),
      rpc_(executor_, clock_, environment.random, environment.transport) {}

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
  // (Another scheme's volume that nobody has used makes room for this one.)
  const auto& volume = control_.volume();
  if (volume && (volume->params.is_ring() || is_used())) {
    if (!volume->params.is_ring() || volume->server != self_)
      return fail(Errc::wrong_volume, "store {} is not of server {} of a ring volume",
                  directory_.string(), self_);
    Status opened = open_store();
    if (!opened && opened.error().code != Errc::wrong_volume) return opened;
    if (!opened) care_.fall_ill(opened.error());
  }
  rpc_.serve([this](Party from, std::uint16_t type, Payload request) {
    return handle(from, static_cast<MessageType>(type), std::move(request));
  });
  return {};
}

Task<Status> Server::stop() {
  rpc_.stop();
  open_ = false;
  while (running_ > 0) co_await idle_.wait();
  co_await care_.ended();
  if (!bucket_store_) co_return Status{};
  co_return co_await sync_->sync(sync_->begin());
}

void Server::set_cache_bytes(std::size_t bytes) {
  cache_bytes_ = bytes;
  if (bucket_store_) bucket_store_->set_cache_bytes(bytes);
}

void Server::gauge() {
  metrics_.traffic_with(kClient, transport_.traffic(kClient));
  metrics_.tree_height.set(control_.volume() ? control_.height() : 0);
  struct stat slots {};
  if (::stat((directory_ / kSlots).c_str(), &slots) == 0)
    metrics_.store_bytes.set(static_cast<double>(slots.st_blocks) * 512);
  struct statvfs disk {};
  if (::statvfs(directory_.c_str(), &disk) == 0)
    metrics_.free_bytes.set(static_cast<double>(disk.f_bavail) *
                            static_cast<double>(disk.f_frsize));
}

Task<Result<Bytes>> Server::handle(Party from, MessageType type, Payload request) {
  ++running_;
  const Duration begun = clock_.now();
  Result<Bytes> answer;
  if (from != kClient)
    answer = fail(Errc::bad_request, "only the client may ask this");
  else if (care_.ailment() && type != MessageType::hello)
    answer = fail(*care_.ailment());
  else
    answer = co_await dispatch(type, std::move(request));
  if (!answer && answer.error().code == Errc::damaged_vault) care_.fall_ill(answer.error());
  metrics_.handled(type, clock_.now() - begun, answer.has_value());
  if (--running_ == 0) idle_.notify_all();
  co_return answer;
}

Task<Result<Bytes>> Server::dispatch(MessageType type, Payload request) {
  switch (type) {
    case MessageType::hello:
      co_return hello();
    case MessageType::traffic:
      co_return traffic();
    case MessageType::room:
      co_return room();
    case MessageType::survey:
      co_return decoded<SurveyRequest>(request, &Server::survey);
    case MessageType::fits:
      co_return decoded<FitsRequest>(request, &Server::fits);
    case MessageType::create:
      co_return decoded<CreateRequest>(request, &Server::create);
    case MessageType::open:
      co_return co_await open_session(std::move(request));
    case MessageType::retrieve:
      co_return co_await in_session(std::move(request), &Server::retrieve);
    case MessageType::write_root:
      co_return co_await in_session(std::move(request), &Server::write_log);
    case MessageType::read_log:
      co_return co_await in_session(std::move(request), &Server::read_log);
    case MessageType::layout:
      co_return co_await in_session(std::move(request), &Server::layout);
    case MessageType::fetch_rows:
      co_return co_await in_session(std::move(request), &Server::fetch_rows);
    case MessageType::check:
      co_return co_await in_session(std::move(request), &Server::check);
    case MessageType::store_rows:
      co_return co_await in_session(std::move(request), &Server::store_rows);
    case MessageType::prepare:
      co_return co_await in_session(std::move(request), &Server::prepare);
    case MessageType::commit:
      co_return co_await in_session(std::move(request), &Server::commit);
    case MessageType::discard:
      co_return co_await in_session(std::move(request), &Server::discard);
    case MessageType::release:
      co_return co_await in_session(std::move(request), &Server::release);
    case MessageType::reserve:
      co_return co_await in_session(std::move(request), &Server::reserve);
    default:
      co_return fail(Errc::bad_request, "unknown request {}", static_cast<int>(type));
  }
}

Result<Bytes> Server::traffic() const {
  const Traffic counted = transport_.traffic(kClient);
  return encode(TrafficAnswer{{{kClient, counted.bytes_sent, counted.bytes_received}}});
}

Result<Bytes> Server::room() {
  if (!bucket_store_) return fail(Errc::wrong_volume, "server {} holds no volume", self_);
  const std::uint64_t possible = bucket_store_->possible_bucket_versions();
  unsigned height = control_.height();
  if (control_.find_ballast())
    while (height < kMaxHeight && control_.bucket_versions_needed(height + 1) <= possible) ++height;
  return encode(RoomAnswer{static_cast<std::uint8_t>(height)});
}

Status Server::check_volume(const VolumeId& volume) const {
  if (control_.volume() && control_.volume()->id == volume) return {};
  return fail(Errc::wrong_volume, "server {} holds {}: start it with the store of this vault",
              self_, control_.volume() ? "another volume" : "no volume");
}

Result<Bytes> Server::survey(const SurveyRequest& request) {
  S3O_TRY(check_volume(request.volume));
  S3O_TRY(require_store());
  return encode(SurveyAnswer{.session = control_.session(),
                             .rewrites = control_.tree_version(),
                             .height = static_cast<std::uint8_t>(control_.height()),
                             .asked = asked_->turns()});
}

Result<bool> Server::takes(const VolumeDescription& volume) const {
  S3O_TRY(check_params(volume.params));
  const bool same = control_.volume() && control_.volume()->id == volume.id;
  if (control_.volume() && !same && is_used())
    return fail(Errc::wrong_volume,
                "server {} holds another volume, which is in use: give that server an empty store, "
                "or this vault another server",
                self_);
  if (!volume.params.is_ring() || volume.server != self_)
    return fail(Errc::bad_request, "this is server {} of a ring, and is asked for another", self_);
  return !same;
}

Status Server::check_room(const VolumeParams& volume) const {
  const Status room =
      check_disk_room(directory_, store_bytes(volume, volume.first_height), kStoreFiles);
  if (room) return {};
  return fail(room.error().code, "server {}: {}", self_, room.error().message);
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
    S3O_TRY(control_.create(request.volume));
    logged_.clear();
  }
  if (free || !bucket_store_) S3O_TRY(open_store());
  if (free)
    spdlog::info("new ring volume: Z={}, A={}, {}-byte blocks", params_->bucket_size,
                 params_->evict_every, params_->block_size);
  return done();
}

Status Server::check_session(std::uint64_t epoch) const {
  if (!open_) return fail(Errc::need_open, "the server was restarted");
  if (epoch != control_.session().epoch && rule_holds(Rule::epochs))
    return fail(epoch < control_.session().epoch ? Errc::fenced : Errc::need_open,
                "epoch {} is not open here, but {}", epoch, control_.session().epoch);
  return {};
}

Status Server::take_session(const OpenRequest& request) {
  const Session& present = control_.session();
  const bool known = std::ranges::find(request.known, present) != request.known.end();
  const bool set_back =
      !request.known.empty() && std::ranges::all_of(request.known, [&](const Session& each) {
        return each.epoch > present.epoch;
      });
  if (!known && set_back)
    return fail(Errc::wrong_volume,
                "server {} has not seen the sessions since its epoch {}: its store was set back to "
                "an old state; put the newest one back",
                self_, present.epoch);
  if (!known && rule_holds(Rule::compare_and_set))
    return fail(Errc::stale_vault,
                "server {} was used since (epoch {}) by another copy of this vault: use the newest "
                "one",
                self_, present.epoch);
  const Turn asked = asked_->turns();
  const bool rebuilds = request.root.empty();  // a rebuild of a lost state knows of no turn
  if (!rebuilds && (request.tree_version < control_.tree_version() || request.root[0] < asked))
    return fail(Errc::stale_vault,
                "server {} was asked by {} turns and has {} rewrites, and this vault knows of {} "
                "and {}: it is an old copy, or has lost the end of its log; use the newest one",
                self_, asked, control_.tree_version(), request.root[0], request.tree_version);
  if (request.next.epoch <= present.epoch)
    return fail(Errc::bad_request, "an epoch must be newer than {}", present.epoch);
  return control_.set_session(request.next);
}

Task<Result<Bytes>> Server::open_session(Payload payload) {
  const auto request = decode<OpenRequest>(payload.body());
  if (!request || request->next.epoch == 0 || request->next.epoch >= kMostEpoch ||
      request->root.size() > 1)
    co_return malformed();
  S3O_CO_TRY(check_volume(request->volume));
  S3O_CO_TRY(require_store());
  if (control_.session() != request->next) {
    S3O_CO_TRY(take_session(*request));
    open_ = false;
  }
  if (!open_) {
    // A request of the previous session must not end in the new one, which does not know it.
    while (in_session_ > 0) co_await session_idle_.wait();
    if (control_.session() != request->next)
      co_return fail(Errc::fenced, "epoch {} is over", request->next.epoch);
    open_ = true;
    opening_ = request->opening;
    while (!stored_.empty()) drop(stored_.begin()->first);
  } else if (static_cast<std::int16_t>(request->opening - opening_) > 0) {
    opening_ = request->opening;  // the client believes in a restart; a late copy changes nothing
  }
  co_return encode(OpenAnswer{control_.tree_version(), control_.prepared()});
}

}  // namespace s3oram::ring
