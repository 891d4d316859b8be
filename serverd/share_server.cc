#include "serverd/share_server.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "oramcore/field/gf256.h"
#include "serverd/control.h"
#include "serverd/eviction.h"
#include "serverd/frame_store.h"
#include "serverd/group_sync.h"

namespace s3oram {
namespace {

constexpr std::size_t kLeastCache = 256 << 20;
constexpr std::size_t kMemoryShare = 16;  // of the machine's memory, for the cache of one server
constexpr std::size_t kEarlySubshares = 4096;  // of one peer
constexpr unsigned kMaxBucketSize = 1024;
constexpr std::uint32_t kMaxBlockSize = 4 << 20;

std::size_t cache_bytes() {
  const auto memory = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return std::max(kLeastCache, memory / kMemoryShare);
}

Status check(const VolumeDescription& volume, Party self) {
  S3O_TRY(volume.params.scheme.check());
  if (volume.server != self || volume.server > volume.params.scheme.servers)
    return fail(Errc::bad_request, "this is server {}, not {}", self, volume.server);
  if (volume.params.block_size < 512 || volume.params.block_size > kMaxBlockSize ||
      volume.params.bucket_size < 2 || volume.params.bucket_size > kMaxBucketSize ||
      volume.params.evict_every < 1 || volume.params.evict_every > volume.params.bucket_size)
    return fail(Errc::bad_request, "the volume's numbers are out of range");
  return {};
}

class Server final : public ShareServer {
 public:
  Server(Control control, std::filesystem::path store, Party self, Executor executor, Executor pool,
         Clock& clock, Random& random, Transport& transport, Disk& disk)
      : control_(std::move(control)),
        directory_(std::move(store)),
        self_(self),
        executor_(executor),
        pool_(std::move(pool)),
        random_(random),
        disk_(disk),
        rpc_(executor, clock, random, transport) {}

  Status start() {
    S3O_TRY(open_frames());
    rpc_.serve([this](Party from, MessageType type, Payload request) {
      return handle(from, type, std::move(request));
    });
    return {};
  }

  Task<Status> stop() override {
    rpc_.stop();
    if (eviction_) eviction_->cancel({Errc::shutting_down, "the server stops"});
    while (running_ > 0) co_await idle_.wait();
    if (!frames_) co_return Status{};
    co_return co_await sync_->sync();
  }

 private:
  // ---- the volume

  Status open_frames() {
    if (!control_.volume()) return {};
    if (control_.volume()->server != self_)
      return fail(Errc::wrong_volume, "store {} belongs to server {} of its volume, not {}",
                  directory_.string(), control_.volume()->server, self_);
    auto file = disk_.open(directory_ / "slots");
    if (!file) return fail(file.error());
    frames_ = std::make_unique<FrameStore>(std::move(*file), params().bucket_size,
                                           params().slot_size(), cache_bytes());
    sync_ = std::make_unique<GroupSync>(executor_, pool_, *frames_);
    return open_root();
  }

  /// The root of a view that has just begun, in memory.
  Status open_empty_root() {
    auto ref = control_.bucket(kRoot, control_.view());
    if (!ref) return fail(ref.error());
    root_frame_ = ref->frame;
    root_ = std::make_shared<Frame>(params().bucket_size, params().slot_size());
    stamps_.assign(params().bucket_size, 0);
    return {};
  }

  /// The root of the present view, in memory, with what is on disk of it.
  Status open_root() {
    S3O_TRY(open_empty_root());
    for (std::size_t slot = 0; slot < stamps_.size(); ++slot) {
      auto found = frames_->read_slot(root_frame_, slot);
      if (!found) return fail(found.error());
      if (!*found) continue;
      stamps_[slot] = (*found)->stamp;
      std::copy((*found)->content.begin(), (*found)->content.end(), root_->slot(slot));
    }
    return {};
  }

  const VolumeParams& params() const { return control_.volume()->params; }

  // ---- requests

  Task<Result<Bytes>> handle(Party from, MessageType type, Payload request) {
    ++running_;
    auto answer = co_await dispatch(from, type, std::move(request));
    if (--running_ == 0) idle_.notify_all();
    co_return answer;
  }

  Task<Result<Bytes>> dispatch(Party from, MessageType type, Payload request) {
    if (from != kClient && type != MessageType::subshare)
      co_return fail(Errc::bad_request, "only the client may ask this");
    switch (type) {
      case MessageType::hello:
        co_return hello();
      case MessageType::create:
        co_return decoded<CreateRequest>(request, &Server::create);
      case MessageType::open:
        co_return co_await open_session(request);
      case MessageType::retrieve:
        co_return co_await in_session<RetrieveRequest>(request, &Server::retrieve, accesses_);
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
      case MessageType::subshare:
        co_return subshare(from, request);
    }
    co_return fail(Errc::bad_request, "unknown request {}", static_cast<int>(type));
  }

  template <class Request>
  Result<Bytes> decoded(const Payload& request, Result<Bytes> (Server::*method)(const Request&)) {
    const auto message = decode<Request>(request.body());
    if (!message) return malformed();
    return (this->*method)(*message);
  }

  template <class Request>
  Task<Result<Bytes>> in_session(Payload& request,
                                 Task<Result<Bytes>> (Server::*method)(Request, Payload&),
                                 std::size_t& under_way) {
    auto message = decode<Request>(request.body());
    if (!message) co_return malformed();
    S3O_CO_TRY(check_session(message->epoch));
    ++under_way;
    auto answer = co_await (this->*method)(*message, request);
    --under_way;
    handler_ended_.notify_all();
    co_return answer;
  }

  static tl::unexpected<Error> malformed() { return fail(Errc::bad_request, "malformed request"); }
  static Bytes done() { return Bytes(Rpc::kHeaderSize); }

  Status check_session(std::uint64_t epoch) const {
    if (!open_) return fail(Errc::need_open, "the server was restarted");
    if (epoch != control_.session().epoch)
      return fail(epoch < control_.session().epoch ? Errc::fenced : Errc::need_open,
                  "epoch {} is not open here, but {}", epoch, control_.session().epoch);
    return {};
  }

  Result<Bytes> hello() { return encode(HelloAnswer{self_, control_.volume()}); }

  Result<Bytes> create(const CreateRequest& request) {
    S3O_TRY(check(request.volume, self_));
    if (control_.volume()) {
      if (control_.volume()->id == request.volume.id) return done();
      if (control_.session().epoch != 0)
        return fail(Errc::wrong_volume, "server {} holds another volume, which is in use", self_);
    }
    S3O_TRY(control_.create(request.volume));
    S3O_TRY(open_frames());
    spdlog::info("new volume: server {} of {}, Z={}, A={}, {}-byte blocks", self_,
                 params().scheme.servers, params().bucket_size, params().evict_every,
                 params().block_size);
    return done();
  }

  Task<Result<Bytes>> open_session(const Payload& payload) {
    const auto decoded_request = decode<OpenRequest>(payload.body());
    if (!decoded_request || decoded_request->next.epoch == 0) co_return malformed();
    const OpenRequest& request = *decoded_request;
    if (!control_.volume() || control_.volume()->id != request.volume)
      co_return fail(Errc::wrong_volume, "server {} holds {}", self_,
                     control_.volume() ? "another volume" : "no volume");
    const Session& present = control_.session();
    if (present != request.next) {
      if (std::find(request.known.begin(), request.known.end(), present) == request.known.end())
        co_return fail(Errc::stale_vault,
                       "server {} was used since (epoch {}) by another copy of this vault: use the "
                       "newest one",
                       self_, present.epoch);
      if (request.next.epoch <= present.epoch)
        co_return fail(Errc::bad_request, "an epoch must be newer than {}", present.epoch);
      S3O_CO_TRY(control_.set_session(request.next));
      open_ = false;
      early_.clear();
    }
    if (!open_) {
      // What the former session began must not end in the new one, unknown to it.
      if (eviction_) eviction_->cancel({Errc::fenced, "a new session began"});
      while (accesses_ + evictions_ > 0) co_await handler_ended_.wait();
      if (control_.session() != request.next)
        co_return fail(Errc::fenced, "epoch {} is over", request.next.epoch);
      open_ = true;
    }
    co_return encode(OpenAnswer{control_.view(), control_.prepared()});
  }

  // ---- accesses

  Task<Result<Bytes>> retrieve(RetrieveRequest request, Payload&) {
    const std::size_t z = params().bucket_size;
    if (request.height > kMaxHeight || request.written > z ||
        request.query.size() != request.written + request.height * z)
      co_return malformed();
    struct Part {
      FrameRef ref;
      View query;
    };
    std::vector<Part> parts;
    std::shared_ptr<const Frame> root;
    if (request.view == control_.view()) {
      S3O_CO_TRY(check_root(request.written));
      root = root_;
    } else {
      auto ref = control_.bucket(kRoot, request.view);
      if (!ref) co_return fail(ref.error());
      parts.push_back({{ref->frame, request.written}, request.query.first(request.written)});
    }
    View left = request.query.subspan(request.written);
    for (unsigned level = 1; level <= request.height; ++level, left = left.subspan(z)) {
      auto ref = control_.bucket(bucket_on_path(request.leaf, level), request.view);
      if (!ref) co_return fail(ref.error());
      if (ref->frame != 0) parts.push_back({*ref, left.first(ref->slots)});
    }
    co_return co_await offload(pool_, [&]() -> Result<Bytes> {
      Bytes answer(Rpc::kHeaderSize + params().slot_size());
      const MutView out = MutView(answer).subspan(Rpc::kHeaderSize);
      std::vector<const std::uint8_t*> rows;
      const auto add = [&](const Frame& frame, View query) {
        rows.resize(query.size());
        for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = frame.slot(i);
        gf::inner_product(query, rows, out);
      };
      if (root) add(*root, request.query.first(request.written));
      for (const Part& part : parts) {
        auto frame = frames_->read(part.ref.frame, part.ref.slots);
        if (!frame) return fail(frame.error());
        add(**frame, part.query);
      }
      return answer;
    });
  }

  /// The root's first `written` slots are there.
  Status check_root(std::size_t written) const {
    for (std::size_t slot = 0; slot < written; ++slot)
      if (stamps_[slot] == 0)
        return fail(Errc::corrupt, "root slot {} of server {} is lost", slot, self_);
    return {};
  }

  Task<Result<Bytes>> write_root(WriteRootRequest request, Payload&) {
    if (request.slot >= params().bucket_size || request.share.size() != params().slot_size())
      co_return malformed();
    if (request.view != control_.view())
      co_return fail(Errc::bad_request, "view {} is not the present one, {}", request.view,
                     control_.view());
    std::uint64_t& stamp = stamps_[request.slot];
    if (request.access == 0 || request.access < stamp)
      co_return fail(Errc::bad_request, "root slot {} has a newer access", request.slot);
    if (request.access > stamp) {
      stamp = request.access;
      std::copy(request.share.begin(), request.share.end(), root_->slot(request.slot));
    }
    S3O_CO_TRY(co_await offload(pool_, [&, frame = root_frame_] {
      return frames_->write_slot(frame, request.slot, request.share, request.access);
    }));
    S3O_CO_TRY(co_await sync_->sync());
    co_return done();
  }

  // ---- evictions

  Task<Result<Bytes>> prepare(PrepareRequest request, Payload& owner) {
    const std::size_t z = params().bucket_size;
    if (control_.prepared() == request.id) co_return done();
    if (request.id.eviction != control_.view() || request.height != control_.height() ||
        request.written > z || request.next_height < request.height ||
        request.next_height > std::min(request.height + 1u, kMaxHeight) ||
        request.matrices.size() != (request.height + 1) * 2 * z * z)
      co_return malformed();
    if (eviction_ || control_.prepared())
      co_return fail(Errc::bad_request, "another attempt is under way");
    S3O_CO_TRY(check_root(request.written));
    // The same attempt with fresh masks would give its parties shares that do not fit together.
    if (control_.attempted(request.id))
      co_return fail(Errc::failed, "this attempt at eviction {} is over", request.id.eviction);
    S3O_CO_TRY(control_.attempt(request.id));

    EvictionInput input{*control_.volume(), request.epoch,    request.id,
                        request.height,     std::move(owner), request.matrices};
    eviction_ = std::make_shared<Eviction>(std::move(input), executor_, pool_, rpc_, random_);
    auto result = co_await carry_out(*eviction_, request);
    eviction_.reset();
    eviction_over_.notify_all();
    // What a peer answered us must not look like our own answer to the client.
    if (!result)
      co_return fail(result.error().code == Errc::disk_full ? Errc::disk_full : Errc::failed,
                     "eviction {}: {}", request.id.eviction, result.error().message);
    co_return done();
  }

  Task<Status> carry_out(Eviction& eviction, const PrepareRequest& request) {
    const unsigned height = request.height;
    S3O_CO_TRY(co_await load_path(eviction, request));
    for (auto& [from, messages] : early_)
      for (auto& [id, early] : messages) {
        if (id != request.id) continue;
        const auto subshare = decode<SubshareRequest>(early.body());
        eviction.receive(from, *subshare, std::move(early));
      }
    forget_early(request.id);
    auto results = co_await eviction.run();
    if (!results) co_return fail(results.error());

    // A source bucket's content becomes that of its inner sibling by reference; D_(H-1) is only a
    // source. The buckets on the path above the leaf are empty afterwards.
    BucketVersions versions;
    std::vector<std::pair<FrameNumber, std::shared_ptr<Frame>>> writes;
    const auto fresh = [&](std::shared_ptr<Frame> content) {
      const FrameNumber frame = control_.allocate();
      writes.emplace_back(frame, std::move(content));
      return FrameRef{frame, params().bucket_size};
    };
    const auto on_path = [&](unsigned level) { return bucket_on_path(request.id.eviction, level); };
    for (unsigned level = 1; level < height; ++level) {
      versions.emplace_back(on_path(level), FrameRef{});
      versions.emplace_back(sibling_of(on_path(level)),
                            level == 1 ? FrameRef{root_frame_, request.written}
                                       : fresh(std::move((*results)[level - 2])));
    }
    versions.emplace_back(on_path(height), fresh(std::move((*results)[height - 1])));
    versions.emplace_back(sibling_of(on_path(height)), fresh(std::move((*results)[height])));
    const FrameNumber root = control_.allocate();
    frames_->forget(root);
    versions.emplace_back(kRoot, FrameRef{root, 0});

    Status status = co_await offload(pool_, [&]() -> Status {
      for (auto& [frame, content] : writes)
        S3O_TRY(frames_->write(frame, std::move(content), request.id.eviction));
      return {};
    });
    if (status) status = co_await sync_->sync();
    if (status) status = control_.prepare(request.id, request.next_height, versions);
    for (const auto& write : writes) control_.give_back(write.first);
    control_.give_back(root);
    co_return status;
  }

  Task<Status> load_path(Eviction& eviction, const PrepareRequest& request) {
    std::vector<FrameRef> refs;
    for (unsigned level = 1; level <= request.height + 1u; ++level) {
      const BucketIndex leaf = bucket_on_path(request.id.eviction, request.height);
      auto ref = control_.bucket(
          level > request.height ? sibling_of(leaf) : bucket_on_path(request.id.eviction, level),
          control_.view());
      if (!ref) co_return fail(ref.error());
      refs.push_back(*ref);
    }
    auto rows = co_await offload(pool_, [&]() -> Result<std::vector<BucketRows>> {
      std::vector<BucketRows> buckets{{root_, request.written}};
      for (const FrameRef& ref : refs) {
        BucketRows& bucket = buckets.emplace_back();
        if (ref.frame == 0) continue;
        auto frame = frames_->read(ref.frame, ref.slots);
        if (!frame) return fail(frame.error());
        bucket = {std::move(*frame), ref.slots};
      }
      return buckets;
    });
    if (!rows) co_return fail(rows.error());
    BucketRows leaf_sibling = std::move(rows->back());
    rows->pop_back();
    eviction.start_from(std::move(*rows), std::move(leaf_sibling));
    co_return Status{};
  }

  /// No access, not even one that came twice, uses a frame that is about to be let go.
  Task<void> accesses_over() {
    while (accesses_ > 0) co_await handler_ended_.wait();
  }

  Task<Result<Bytes>> commit(CommitRequest request, Payload&) {
    co_await accesses_over();
    if (control_.view() == request.id.eviction + 1) co_return done();
    if (control_.prepared() != request.id)
      co_return fail(Errc::bad_request, "eviction {} is not prepared", request.id.eviction);
    const auto written =
        std::find(stamps_.begin(), stamps_.end(), std::uint64_t{0}) - stamps_.begin();
    frames_->adopt(root_frame_, root_, static_cast<std::size_t>(written));
    S3O_CO_TRY(control_.commit());
    S3O_CO_TRY(open_empty_root());
    early_.clear();
    co_return done();
  }

  Task<Result<Bytes>> discard(DiscardRequest request, Payload&) {
    while (eviction_ && eviction_->id() == request.id) {
      eviction_->cancel({Errc::failed, "the client discards this attempt"});
      co_await eviction_over_.wait();
    }
    if (control_.prepared() == request.id) S3O_CO_TRY(control_.discard());
    // Its Prepare may still be on the way.
    if (request.id.eviction == control_.view() && !control_.attempted(request.id))
      S3O_CO_TRY(control_.attempt(request.id));
    forget_early(request.id);
    co_return done();
  }

  Task<Result<Bytes>> release(ReleaseRequest request, Payload&) {
    co_await accesses_over();
    if (control_.view() == request.id.eviction + 1) control_.release();
    co_return done();
  }

  Result<Bytes> subshare(Party from, Payload& request) {
    const auto message = decode<SubshareRequest>(request.body());
    if (!message) return malformed();
    S3O_TRY(check_session(message->epoch));
    if (eviction_ && eviction_->id() == message->id) {
      eviction_->receive(from, *message, std::move(request));
    } else if (message->id.eviction >= control_.view() && control_.prepared() != message->id) {
      if (control_.attempted(message->id))
        return fail(Errc::failed, "server {} has given up this attempt", self_);
      // A peer that got its Prepare before us.
      auto& early = early_[from];
      if (early.size() >= kEarlySubshares)
        return fail(Errc::bad_request, "too many subshares for an unknown eviction");
      early.emplace_back(message->id, std::move(request));
    }
    return done();
  }

  void forget_early(const EvictionId& id) {
    for (auto& [from, messages] : early_)
      std::erase_if(messages, [&](const auto& message) { return message.first == id; });
  }

  Control control_;
  const std::filesystem::path directory_;
  const Party self_;
  Executor executor_;
  Executor pool_;
  Random& random_;
  Disk& disk_;
  std::unique_ptr<FrameStore> frames_;
  std::unique_ptr<GroupSync> sync_;
  bool open_ = false;  // a session was opened in this process's life

  FrameNumber root_frame_ = 0;
  std::shared_ptr<Frame> root_;
  std::vector<std::uint64_t> stamps_;  // of the root's slots; 0 is never written

  std::shared_ptr<Eviction> eviction_;
  Event eviction_over_;
  std::map<Party, std::vector<std::pair<EvictionId, Payload>>> early_;  // by sender

  // Handlers under way in a session.
  std::size_t accesses_ = 0, evictions_ = 0;
  Event handler_ended_;

  std::size_t running_ = 0;
  Event idle_;
  Rpc rpc_;
};

}  // namespace

Result<std::unique_ptr<ShareServer>> ShareServer::open(const std::filesystem::path& store,
                                                       Party self, Executor executor, Executor pool,
                                                       Clock& clock, Random& random,
                                                       Transport& transport, Disk& disk) {
  auto control = Control::open(store / "control.db", disk);
  if (!control) return fail(control.error());
  auto server = std::make_unique<Server>(std::move(*control), store, self, std::move(executor),
                                         std::move(pool), clock, random, transport, disk);
  S3O_TRY(server->start());
  return std::unique_ptr<ShareServer>(std::move(server));
}

}  // namespace s3oram
