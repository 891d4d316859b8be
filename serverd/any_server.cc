// Chooses between the servers (that of s3oram and mirror, and that of ring) by the store's volume,
// and exchanges one for the other when a client makes the store's first volume and needs the other.
#include "serverd/any_server.h"

#include <spdlog/spdlog.h>

#include <deque>

#include "oramcore/net/rpc.h"
#include "serverd/oram/store_check.h"
#include "serverd/oram/tree_server.h"
#include "serverd/ring/ring_server.h"
#include "serverd/schemes.h"

namespace s3oram {
namespace {

enum class ServerKind { shares, ring };

ServerKind kind_of(const VolumeParams& params) {
  return params.is_ring() ? ServerKind::ring : ServerKind::shares;
}

/// The transport of the current server. AnyServer sees each message first.
class Relay final : public Transport {
 public:
  explicit Relay(Transport& below) : below_(below) {}
  void on_message(Handler handler) override { handler_ = std::move(handler); }
  void send(Party to, Bytes message) override { below_.send(to, std::move(message)); }
  void limit_messages(std::size_t largest) override { below_.limit_messages(largest); }
  Traffic traffic(Party party) const override { return below_.traffic(party); }
  void on_connection(std::function<void(Party to)> handler) override {
    connected_ = std::move(handler);
  }

  void deliver(Party from, Bytes message) {
    if (handler_) handler_(from, std::move(message));
  }
  void tell_of_connection(Party to) {
    if (connected_) connected_(to);
  }

 private:
  Transport& below_;
  Handler handler_;
  std::function<void(Party to)> connected_;
};

/// Returns the kind of server that this message needs; std::nullopt if any kind may answer it.
std::optional<ServerKind> wanted_by(Party from, const Bytes& message) {
  if (from != kClient) return std::nullopt;
  const auto type = Rpc::question_in(message);
  if (!type) return std::nullopt;
  const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
  switch (static_cast<MessageType>(*type)) {
    case MessageType::fits:
      if (const auto request = decode<FitsRequest>(body)) return kind_of(request->volume.params);
      return std::nullopt;
    case MessageType::create:
      if (const auto request = decode<CreateRequest>(body)) return kind_of(request->volume.params);
      return std::nullopt;
    case MessageType::reenrol:
      return ServerKind::shares;
    default:
      return std::nullopt;
  }
}

class AnyServer final : public ShareServer {
 public:
  AnyServer(const std::filesystem::path& store, Party self, const ServerEnvironment& environment)
      : store_(store),
        self_(self),
        relay_(environment.transport),
        above_{environment.executor,
               environment.pool,
               environment.background,
               environment.readers,
               environment.clock,
               environment.random,
               relay_,
               environment.disk,
               environment.memory,
               environment.cache_bytes,
               environment.metrics,
               environment.record,
               environment.take_peer} {
    environment.transport.on_message(
        [this](Party from, Bytes message) { received(from, std::move(message)); });
    environment.transport.on_connection([this](Party to) { relay_.tell_of_connection(to); });
  }

  /// Opens the server that the store's volume needs or, as long as no client has used that volume,
  /// the `wanted` one.
  Status open(std::optional<ServerKind> wanted) {
    S3O_ASSIGN(auto control, open_control(store_, above_.disk));
    const bool used = control.session().epoch > 0;
    const ServerKind present =
        control.volume() ? kind_of(control.volume()->params) : ServerKind::shares;
    const ServerKind kind = kind_ = wanted && !used ? *wanted : present;
    auto opened = kind == ServerKind::ring
                      ? ring::Server::open(std::move(control), store_, self_, above_)
                      : open_share_server(std::move(control), store_, self_, server_scheme, above_);
    if (!opened) return fail(std::move(opened).error());
    inner_ = std::move(*opened);
    inner_->set_cache_bytes(above_.cache_bytes);
    return {};
  }

  Task<Status> stop() override {
    stopped_ = true;
    while (exchanging_) co_await exchanged_.wait();
    if (inner_) co_return co_await inner_->stop();
    co_return Status{};
  }
  unsigned parties() const override { return inner_ ? inner_->parties() : 0; }
  bool is_used() const override { return inner_ && inner_->is_used(); }
  void set_cache_bytes(std::size_t bytes) override {
    above_.cache_bytes = bytes;
    if (inner_) inner_->set_cache_bytes(bytes);
  }
  void look_after_store() override {
    if (inner_) return inner_->look_after_store();
    if (!exchanging_ && !stopped_) begin_exchange({});  // it could not be opened earlier
  }
  void gauge() override {
    if (inner_) inner_->gauge();
  }

 private:
  /// Bounds the messages that are kept while one server is exchanged for the other. Senders repeat
  /// the rest.
  static constexpr std::size_t kMostWaiting = 64;

  void received(Party from, Bytes message) {
    const auto wanted = wanted_by(from, message);
    const bool other = inner_ && wanted && *wanted != kind_ && !inner_->is_used();
    if (other && !exchanging_ && !stopped_) begin_exchange(*wanted);
    if (!exchanging_ && inner_) return relay_.deliver(from, std::move(message));
    if (waiting_.size() < kMostWaiting) waiting_.emplace_back(from, std::move(message));
  }

  void begin_exchange(std::optional<ServerKind> kind) {
    exchanging_ = true;
    spawn(above_.executor, exchange(kind));
  }

  Task<void> exchange(std::optional<ServerKind> kind) {
    Status done;
    if (inner_) done = co_await inner_->stop();
    co_await asio::post(above_.executor, asio::use_awaitable);  // now its last handler has returned
    inner_.reset();
    if (done && !stopped_) done = open(kind);
    if (!done) spdlog::error("store {}: {}", store_.string(), done.error().message);
    exchanging_ = false;
    for (auto waiting = std::exchange(waiting_, {}); inner_ && !waiting.empty();
         waiting.pop_front())
      relay_.deliver(waiting.front().first, std::move(waiting.front().second));
    exchanged_.notify_all();
  }

  const std::filesystem::path store_;
  const Party self_;
  Relay relay_;
  ServerEnvironment above_;
  ServerKind kind_ = ServerKind::shares;
  std::unique_ptr<ShareServer> inner_;  // null while it is being exchanged, or cannot be opened
  bool exchanging_ = false, stopped_ = false;
  Event exchanged_;
  std::deque<std::pair<Party, Bytes>> waiting_;
};

}  // namespace

Result<std::unique_ptr<ShareServer>> open_server(const std::filesystem::path& store, Party self,
                                                 const ServerEnvironment& environment) {
  auto server = std::make_unique<AnyServer>(store, self, environment);
  S3O_TRY(server->open({}));
  return std::unique_ptr<ShareServer>(std::move(server));
}

}  // namespace s3oram
