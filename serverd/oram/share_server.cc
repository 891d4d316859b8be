// A server's requests, sessions and volume; see server.h for the other parts.
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
#include "serverd/oram/server.h"

namespace s3oram {
namespace {

static_assert(BucketVersion::kTrailer == VolumeParams::kStoredOverhead);

// Bytes beside the cache and the path of an eviction: the program, its readers, and messages.
constexpr std::uint64_t kOwnMemory = 36 << 20;
constexpr std::uint64_t kBucketMemory = 32;  // for each bucket version in the table

Status check(const VolumeDescription& volume, Party self) {
  S3O_TRY(check_params(volume.params));
  if (volume.server != self || volume.server > volume.params.scheme.servers)
    return fail(Errc::bad_request, "this is server {}, not {}", self, volume.server);
  return {};
}

}  // namespace

Status Server::start() {
  S3O_TRY(open_bucket_versions(Shares::must_be_there));
  rpc_.serve([this](Party from, std::uint16_t type, Payload request) {
    return handle(from, static_cast<MessageType>(type), std::move(request));
  });
  return {};
}

Task<Status> Server::stop() {
  rpc_.stop();
  open_ = false;
  parts_changed_.notify_all();
  if (eviction_) eviction_->cancel({Errc::shutting_down, "the server stops"});
  while (running_ > 0 || recovering_) co_await idle_.wait();
  if (!bucket_store_) co_return Status{};
  Status durable = co_await sync_->sync(sync_->begin());
  // An earlier one that failed is reported at once, while this one is still under way.
  co_await sync_->ended();
  co_return durable;
}

void Server::set_cache_bytes(std::size_t bytes) {
  cache_bytes_ = bytes;
  if (bucket_store_) bucket_store_->set_cache_bytes(bytes);
}

/// A disk may be full later. But a limit of the process is a mistake that can be mended now, before
/// the server is used.
Status Server::check_file_size() const {
  const std::uint64_t needed =
      bucket_store_->bytes_of(control_.bucket_versions_needed(control_.height()));
  if (needed <= file_size_limit()) return {};
  return fail(Errc::disk_full, "store {}: its shares take a file of {}: {}", directory_.string(),
              human_size(needed), reason_of(EFBIG));
}

void Server::warn_of_little_memory() const {
  const std::uint64_t slots =
      path_buckets(params(), 0, control_.height()).size() * params().bucket_size +
      params().root_buffer_slots();
  const std::uint64_t needed = kOwnMemory + cache_bytes_ + slots * params().slot_size();
  if (memory_ < needed)
    spdlog::warn(
        "this server may use {} of memory, and takes about {} during an eviction, {} of them its "
        "cache: it may be killed; let it use more (MemoryMax of its unit)",
        human_size(memory_), human_size(needed), human_size(cache_bytes_));
}

Status Server::open_root_buffer() {
  root_buffer_.assign(params().root_buffer_slots(), {});
  for (std::uint16_t slot = 0; slot < root_buffer_.size(); ++slot) {
    auto found = bucket_store_->read_slot(kRootBuffer, slot);
    // A slot that the disk cannot read counts as never written: the client heals it.
    if (found && *found) keep_in_root_buffer(slot, std::move((*found)->content), (*found)->stamp);
  }
  // An earlier process may have ended before it synced them.
  S3O_TRY(bucket_store_->sync());
  for (RootBufferSlot& slot : root_buffer_) slot.durable = slot.stamp;
  return {};
}

Task<Result<Bytes>> Server::handle(Party from, MessageType type, Payload request) {
  ++running_;
  const Duration begun = clock_.now();
  Result<Bytes> answer;
  if (ailment_ && !is_for_the_ill(type))
    answer = fail(*ailment_);
  else
    answer = co_await dispatch(from, type, std::move(request));
  if (!answer && answer.error().code == Errc::damaged_vault) fall_ill(answer.error());
  metrics_.handled(type, clock_.now() - begun, answer.has_value());
  if (--running_ == 0) idle_.notify_all();
  co_return answer;
}

Task<Result<Bytes>> Server::dispatch(Party from, MessageType type, Payload request) {
  const bool of_peers = type == MessageType::subshare || type == MessageType::masked_share ||
                        type == MessageType::relay;
  if (of_peers != (from != kClient))
    co_return fail(Errc::bad_request, "only {} may ask this", of_peers ? "a server" : "the client");
  switch (type) {
    case MessageType::hello:
      co_return hello();
    case MessageType::traffic:
      co_return traffic();
    case MessageType::room:
      co_return room();
    case MessageType::survey:
      co_return decoded<SurveyRequest>(request, &Server::survey);
    case MessageType::labels:
      co_return co_await in_session<LabelsRequest>(request, &Server::labels, accesses_);
    case MessageType::fits:
      co_return decoded<FitsRequest>(request, &Server::fits);
    case MessageType::create:
      co_return decoded<CreateRequest>(request, &Server::create);
    case MessageType::reenrol:
      co_return decoded<ReenrolRequest>(request, &Server::reenrol);
    case MessageType::layout:
      co_return co_await in_session<LayoutRequest>(request, &Server::layout, accesses_);
    case MessageType::heads:
      co_return co_await in_session<HeadsRequest>(request, &Server::heads, accesses_);
    case MessageType::certify:
      co_return co_await in_session<CertifyRequest>(request, &Server::certify, evictions_);
    case MessageType::digests:
      co_return co_await in_session<DigestsRequest>(request, &Server::digests, accesses_);
    case MessageType::open:
      co_return co_await open_session(request);
    case MessageType::rejoin:
      co_return co_await rejoin(request);
    case MessageType::retrieve:
      co_return co_await in_session<SharedRetrieveRequest>(request, &Server::retrieve, accesses_);
    case MessageType::write_root:
      co_return co_await in_session<WriteRootRequest>(request, &Server::write_root, accesses_);
    case MessageType::prepare:
      co_return co_await in_session<PrepareRequest>(request, &Server::prepare, evictions_);
    case MessageType::commit:
      co_return co_await in_session<CommitRequest>(request, &Server::commit, evictions_);
    case MessageType::discard:
      co_return co_await in_session<DiscardRequest>(request, &Server::discard, evictions_);
    case MessageType::release:
      co_return co_await in_session<ReleaseRequest>(request, &Server::release, evictions_);
    case MessageType::reserve:
      co_return co_await in_session<ReserveRequest>(request, &Server::reserve, evictions_);
    case MessageType::damage:
      co_return co_await in_session<DamageRequest>(request, &Server::damage, accesses_);
    case MessageType::read_slot:
      co_return co_await in_session<ReadSlotRequest>(request, &Server::read_slot, accesses_);
    case MessageType::heal_slot:
      co_return co_await in_session<HealSlotRequest>(request, &Server::heal_slot, accesses_);
    case MessageType::check:
      co_return co_await in_session<CheckRequest>(request, &Server::check, accesses_);
    case MessageType::contribute:
      co_return co_await in_session<ContributeRequest>(request, &Server::contribute, accesses_);
    case MessageType::mend:
      co_return co_await in_session<MendRequest>(request, &Server::mend, accesses_);
    case MessageType::withdraw:
      co_return co_await in_session<WithdrawRequest>(request, &Server::withdraw, accesses_);
    case MessageType::subshare:
      co_return subshare(from, request);
    case MessageType::masked_share:
      co_return co_await masked_share(from, request);
    case MessageType::relay:
      co_return co_await relay(from, request);
    case MessageType::store_rows:
    case MessageType::fetch_rows:
    case MessageType::read_log:
      break;  // of a ring
  }
  co_return fail(Errc::bad_request, "unknown request {}", static_cast<int>(type));
}

Status Server::check_session(std::uint64_t epoch) const {
  if (!open_) return fail(Errc::need_open, "the server was restarted");
  if (epoch != control_.session().epoch && rule_holds(Rule::epochs))
    return fail(epoch < control_.session().epoch ? Errc::fenced : Errc::need_open,
                "epoch {} is not open here, but {}", epoch, control_.session().epoch);
  return {};
}

Result<Bytes> Server::traffic() const {
  TrafficAnswer answer;
  const Party servers = control_.volume() ? params().scheme.servers : Party{0};
  for (Party party = kClient; party <= servers; ++party) {
    if (party == self_) continue;
    const Traffic counted = transport_.traffic(party);
    answer.links.push_back({party, counted.bytes_sent, counted.bytes_received});
  }
  return encode(answer);
}

void Server::gauge() {
  const Party servers = control_.volume() ? params().scheme.servers : Party{0};
  for (Party party = kClient; party <= servers; ++party)
    if (party != self_) metrics_.traffic_with(party, transport_.traffic(party));
  metrics_.damaged_buckets.set(static_cast<double>(damaged_.size()));
  metrics_.tree_height.set(control_.volume() ? control_.height() : 0);
  struct stat slots {};
  if (::stat((directory_ / "slots").c_str(), &slots) == 0)
    metrics_.store_bytes.set(static_cast<double>(slots.st_blocks) * 512);
  struct statvfs disk {};
  if (::statvfs(directory_.c_str(), &disk) == 0)
    metrics_.free_bytes.set(static_cast<double>(disk.f_bavail) *
                            static_cast<double>(disk.f_frsize));
}

Result<bool> Server::takes(const VolumeDescription& volume, unsigned height) const {
  S3O_TRY(s3oram::check(volume, self_));
  const bool same = control_.volume() && control_.volume()->id == volume.id;
  if (control_.volume() && !same && is_used())
    return fail(Errc::wrong_volume,
                "server {} holds another volume, which is in use: give that server an empty store, "
                "or this vault another server",
                self_);
  if (volume.params.is_ring())
    return fail(Errc::bad_request, "server {} cannot hold a ring{}", self_,
                record_ ? " while it records what it reads (--record)" : "");
  if (const std::uint64_t table = kBucketMemory << (std::min(height, kMaxHeight) + 1);
      table > memory_)
    return fail(Errc::failed,
                "server {} needs {} of memory for a tree of height {}, and may use {}", self_,
                human_size(table), height, human_size(memory_));
  return !same;
}

/// Opens the files of a volume that exists already; its disk may have failed just after it was
/// made.
Result<Bytes> Server::opened(Shares shares) {
  if (ailment_ && (shares == Shares::must_be_there || !lacks_shares_)) return fail(*ailment_);
  if (!bucket_store_) S3O_TRY(open_bucket_versions(shares));
  return done();
}

/// Checks that there is room for a new volume. An old one that was never opened makes room for it.
Status Server::check_room(const VolumeParams& volume) const {
  const std::uint64_t needed = store_bytes(volume, volume.first_height);
  std::error_code none;
  const auto kept = std::filesystem::file_size(directory_ / "slots", none);
  const std::uint64_t more = needed - std::min(needed, none ? 0 : std::uint64_t{kept});
  const Status room = check_disk_room(directory_, more, 0);
  if (room) return {};
  return fail(room.error().code, "server {}: {}", self_, room.error().message);
}

Result<Bytes> Server::fits(const FitsRequest& request) {
  S3O_ASSIGN(const auto free, takes(request.volume, request.volume.params.first_height));
  if (free) S3O_TRY(check_room(request.volume.params));
  return done();
}

Result<Bytes> Server::create(const CreateRequest& request) {
  S3O_ASSIGN(const auto free, takes(request.volume, request.volume.params.first_height));
  if (!free) return opened(Shares::must_be_there);
  S3O_TRY(check_room(request.volume.params));
  S3O_TRY(control_.create(request.volume));
  S3O_TRY(open_bucket_versions(Shares::may_be_lost));
  spdlog::info("new volume: server {} of {}, Z={}, A={}, {}-byte blocks", self_,
               params().scheme.servers, params().bucket_size, params().evict_every,
               params().block_size);
  return done();
}

// The session is not open here yet, so no request meets the missing shares. A server that has lost
// only its shares keeps its place, and has them repaired too.
Result<Bytes> Server::reenrol(const ReenrolRequest& request) {
  S3O_ASSIGN(const auto free, takes(request.volume, request.height));
  if (!free) return opened(Shares::may_be_lost);
  if (request.session.epoch == 0) return malformed();
  S3O_TRY(control_.reenrol(request));
  if (!request.last) return done();
  S3O_TRY(open_bucket_versions(Shares::may_be_lost));
  spdlog::warn("this is server {} of a volume in use, whose shares are to be made anew: {} buckets",
               self_, request.from + request.buckets.size());
  return done();
}

Task<Result<Bytes>> Server::layout(LayoutRequest request, Payload&) {
  S3O_CO_TRY(check_tree_version(request.tree_version));
  if (request.most == 0) co_return malformed();
  if (request.most >
      LayoutRequest::kMost)  // a client from before messages were bounded by the volume
    co_return fail(Errc::unsupported,
                   "this server tells of {} buckets at a time: repair with a newer s3oramfs",
                   LayoutRequest::kMost);
  LayoutAnswer answer;
  std::unordered_map<BucketVersionNumber, BucketIndex> first;
  std::uint64_t before = 0;
  for (const auto& [bucket, ref] : control_.layout()) {
    const BucketIndex same = first.try_emplace(ref.bucket_version, bucket).first->second;
    if (before++ >= request.from) answer.buckets.push_back({bucket, same, ref.slots, ref.stamp});
    if (answer.buckets.size() == request.most) break;
  }
  co_return encode(answer);
}

Status Server::check_volume(const VolumeId& volume) const {
  if (control_.volume() && control_.volume()->id == volume) return {};
  return fail(Errc::wrong_volume,
              "server {} holds {}: start it with the store of this vault's volume{}", self_,
              control_.volume() ? "another volume" : "no volume",
              control_.volume() ? "" : ", or, if that is lost, run s3oramfs repair");
}

Task<Result<Bytes>> Server::open_session(const Payload& payload) {
  const auto decoded_request = decode<OpenRequest>(payload.body());
  if (!decoded_request || decoded_request->next.epoch == 0 ||
      decoded_request->next.epoch >= kMostEpoch)
    co_return malformed();
  const OpenRequest& request = *decoded_request;
  S3O_CO_TRY(check_volume(request.volume));
  if (!bucket_store_) S3O_CO_TRY(open_bucket_versions(Shares::must_be_there));
  if (ailment_) co_return fail(*ailment_);
  const Session& present = control_.session();
  if (present != request.next) {
    const bool known =
        std::find(request.known.begin(), request.known.end(), present) != request.known.end();
    if (!known && !request.known.empty() &&
        std::all_of(request.known.begin(), request.known.end(),
                    [&](const Session& s) { return s.epoch > present.epoch; }))
      co_return fail(Errc::wrong_volume,
                     "server {} has not seen the sessions since its epoch {}: its store was set "
                     "back to an old state; put the newest one back",
                     self_, present.epoch);
    if (!known && rule_holds(Rule::compare_and_set))
      co_return fail(Errc::stale_vault,
                     "server {} was used since (epoch {}) by another copy of this vault: use the "
                     "newest one",
                     self_, present.epoch);
    // Refused before it ends the session of the newest copy. (A rebuild has no state to compare.)
    if (request.tree_version < control_.tree_version() &&
        (request.tree_version > 0 || !request.root.empty()))
      co_return fail(
          Errc::stale_vault,
          "server {} has seen {} evictions and this vault {}: it is an old copy, or has lost the "
          "end of its log (vault.db-wal was damaged or removed); use the newest one",
          self_, control_.tree_version(), request.tree_version);
    if (request.next.epoch <= present.epoch)
      co_return fail(Errc::bad_request, "an epoch must be newer than {}", present.epoch);
    S3O_CO_TRY(control_.set_session(request.next));
    open_ = false;
    early_.clear();
  }
  if (!open_) {
    // Requests of the earlier session must not end in the new one, which does not know them.
    co_await end_session(Errc::fenced, "a new session began");
    if (control_.session() != request.next)
      co_return fail(Errc::fenced, "epoch {} is over", request.next.epoch);
    open_ = true;
    opening_ = request.opening;
    rejoined_.reset();
    forget_messages();
    distrust_root(request);
  } else if (static_cast<std::int16_t>(request.opening - opening_) > 0) {
    opening_ = request.opening;  // the client assumes a restart; a late copy changes nothing
  }
  co_return encode(OpenAnswer{control_.tree_version(), control_.prepared()});
}

Task<void> Server::end_session(Errc code, const char* why) {
  open_ = false;
  parts_changed_.notify_all();
  if (eviction_) eviction_->cancel({code, why});
  while (accesses_ + evictions_ > 0) co_await handler_ended_.wait();
}

void Server::forget_messages() {
  sums_.clear();
  oldest_sum_ = 0;
  masked_shares_.clear();
  relayed_.clear();
}

// What began before this must not end after it: it belongs to another tree version, or the client
// has long done without it.
Task<Result<Bytes>> Server::rejoin(const Payload& payload) {
  const auto request = decode<RejoinRequest>(payload.body());
  if (!request || !control_.volume() || !params().is_mirror() ||
      request->volume.id != control_.volume()->id || request->volume.params != params() ||
      request->volume.server != self_)
    co_return malformed();
  S3O_CO_TRY(check_session(request->session.epoch));
  if (payload.tag() != opening_)
    co_return fail(Errc::need_open, "the server was restarted meanwhile");
  if (rejoined_ != opening_ && !request->last) S3O_CO_TRY(control_.rejoin(*request));
  if (rejoined_ != opening_ && request->last) {
    co_await end_session(Errc::failed, "this server rejoins the volume");
    if (open_ || control_.session() != request->session || payload.tag() != opening_)
      co_return fail(Errc::need_open, "another session was opened meanwhile");
    early_.clear();
    damaged_.clear();
    S3O_CO_TRY(control_.rejoin(*request));
    S3O_CO_TRY(open_bucket_versions(Shares::may_be_lost));
    forget_messages();
    keep_of_root(*request);
    open_ = true;
    rejoined_ = opening_;
    spdlog::info("this server rejoins the volume after {} evictions: {} of {} buckets are missing",
                 control_.tree_version(), control_.missing().size(), control_.layout().size());
  }
  co_return encode(RejoinAnswer{control_.missing().size()});
}

void Server::keep_of_root(const RejoinRequest& request) {
  std::vector<std::uint64_t> known(root_buffer_.size());
  const WriteNumber first = first_write_number(request.tree_version, params().evict_every);
  for (std::size_t i = 0; i < std::min(request.root.size(), known.size()); ++i)
    known[root_slot(first + i, params().evict_every)] = request.root[i];
  for (std::size_t slot = 0; slot < known.size(); ++slot)
    if (root_buffer_[slot].stamp != known[slot])
      root_buffer_[slot].stamp = root_buffer_[slot].durable = 0;
}

void Server::distrust_root(const OpenRequest& request) {
  // Or the next tree version, which this server still has to install: that does not touch the root
  // buffer.
  if (request.tree_version - control_.tree_version() > 1 || !rule_holds(Rule::root_stamps)) return;
  const WriteNumber first = first_write_number(request.tree_version, params().evict_every);
  for (std::size_t i = 0; i < std::min(request.root.size(), root_buffer_.size()); ++i) {
    RootBufferSlot& slot = root_buffer_[root_slot(first + i, params().evict_every)];
    if (request.root[i] == 0 || slot.stamp == request.root[i] || slot.stamp == 0) continue;
    spdlog::error("root write {} is lost, although acknowledged: was the store set back?",
                  first + i);
    slot.stamp = slot.durable = 0;
  }
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
