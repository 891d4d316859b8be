// One process, one thread: a client and l servers over a network in memory, with real stores in a
// temporary directory. What a test does to it repeats with its seed, but for the disks' time.
#pragma once

#include <stdlib.h>

#include <boost/asio/io_context.hpp>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "oramcore/client/engine.h"
#include "serverd/share_server.h"
#include "tests/harness/shuffled_pool.h"

namespace s3oram::test {

/// Delivers messages between parties, unless told otherwise.
class Network {
 public:
  explicit Network(Executor executor) : executor_(std::move(executor)) {}

  /// Sees every message; false loses it.
  std::function<bool(Party from, Party to, const Bytes& message)> filter;

  std::unique_ptr<Transport> attach(Party self);
  /// Nothing goes to or from this port any more.
  void detach(Transport& port);

  void deliver(Party from, Party to, Bytes message);

 private:
  class Port;
  Executor executor_;
  std::map<Party, Port*> ports_;
};

class Network::Port final : public Transport {
 public:
  Port(Network& network, Party self) : network_(network), self_(self) {
    network_.ports_[self_] = this;
  }
  ~Port() override { network_.detach(*this); }
  void on_message(Handler handler) override { handler_ = std::move(handler); }
  void send(Party to, Bytes message) override {
    if (attached()) network_.deliver(self_, to, std::move(message));
  }

 private:
  friend class Network;
  bool attached() const {
    const auto port = network_.ports_.find(self_);
    return port != network_.ports_.end() && port->second == this;
  }
  Network& network_;
  Party self_;
  Handler handler_;
};

inline std::unique_ptr<Transport> Network::attach(Party self) {
  return std::make_unique<Port>(*this, self);
}

inline void Network::detach(Transport& port) {
  std::erase_if(ports_, [&](const auto& entry) { return entry.second == &port; });
}

inline void Network::deliver(Party from, Party to, Bytes message) {
  if (filter && !filter(from, to, message)) return;
  asio::post(executor_, [this, from, to, message = std::move(message)]() mutable {
    const auto port = ports_.find(to);
    if (port != ports_.end() && port->second->handler_)
      port->second->handler_(from, std::move(message));
  });
}

/// Time that passes as fast as the process has nothing else to do.
class FastClock final : public Clock {
 public:
  explicit FastClock(asio::io_context& context) : context_(context) {}
  Duration now() const override { return now_; }
  void call_after(Duration after, std::function<void()> then) override {
    timers_.emplace(now_ + after, std::move(then));
  }
  /// Moves on to the next timer; false if there is none.
  bool advance() {
    if (timers_.empty()) return false;
    auto first = timers_.begin();
    now_ = std::max(now_, first->first);
    asio::post(context_, std::move(first->second));
    timers_.erase(first);
    return true;
  }

 private:
  asio::io_context& context_;
  Duration now_{0};
  std::multimap<Duration, std::function<void()>> timers_;
};

class Cluster {
 public:
  Cluster(const VolumeParams& params, std::uint64_t seed)
      : params_(params),
        network(context.get_executor()),
        clock(context),
        pool(seed),
        random_(seed_of(seed), as_view("cluster")) {
    std::string pattern = (std::filesystem::temp_directory_path() / "s3oramfs-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp");
    directory_ = pattern;
    random_.fill(volume_);
    random_.fill(key_);
    servers_.resize(params.scheme.servers + 1u);
    for (Party server = 1; server <= params.scheme.servers; ++server) start_server(server);
    auto port = network.attach(kClient);
    Servers setup(context.get_executor(), clock, random_, *port, volume_, params.scheme.servers);
    require(run(setup.create(params, std::chrono::seconds(60))));
    require(ClientState::create(database()));
  }
  ~Cluster() {
    if (engine_) kill_client();
    for (Party server = 1; server < servers_.size(); ++server)
      if (servers_[server].server) stop_server(server);
    run_until([&] { return ending_ == 0; });
    dead_clients_.clear();
    dead_servers_.clear();
    std::filesystem::remove_all(directory_);
  }

  // ---- parties

  void start_server(Party server) {
    Running& running = servers_[server];
    std::filesystem::create_directories(store(server));
    running.transport = network.attach(server);
    auto opened = ShareServer::open(store(server), server, context.get_executor(), pool.executor(),
                                    clock, random_, *running.transport);
    require(opened);
    running.server = std::move(*opened);
  }
  void stop_server(Party server) {
    require(run(servers_[server].server->stop()));
    servers_[server].server.reset();
    servers_[server].transport.reset();
  }
  /// The server's process ends at this instant, in the middle of anything: what its files hold now
  /// is what the next start_server() finds. (The dead one lives on where nobody sees it.)
  void kill_server(Party server) {
    Running& running = servers_[server];
    const auto was = store(server);
    ++running.lives;
    std::filesystem::copy(was, store(server));
    network.detach(*running.transport);
    end_unseen(running.server->stop());
    dead_servers_.push_back({std::move(running.transport), std::move(running.server)});
  }
  bool runs(Party server) const { return servers_[server].server != nullptr; }
  std::filesystem::path store(Party server) const {
    return directory_ / fmt::format("{}.{}", server, servers_[server].lives);
  }

  Status open_client() {
    std::optional<Status> status;
    begin_open_client([&](Status s) { status.emplace(std::move(s)); });
    run_until([&] { return status.has_value(); });
    if (!*status) {
      static_cast<void>(run(engine_->close(false)));
      drop_client();
    }
    return std::move(*status);
  }
  /// The same, without waiting for it. After an error kill_client() is all that can be done.
  void begin_open_client(std::function<void(Status)> done) {
    port_ = network.attach(kClient);
    auto state = ClientState::open(database());
    require(state);
    engine_ = std::make_unique<Engine>(
        ClientEnvironment{context.get_executor(), context.get_executor(), clock, random_, *port_},
        volume_, params_, key_, std::move(*state));
    spawn(context.get_executor(),
          [](Task<Status> opening, std::function<void(Status)> then) -> Task<void> {
            then(co_await std::move(opening));
          }(engine_->open(std::chrono::seconds(20)), std::move(done)));
  }
  Status close_client() {
    auto status = run(engine_->close());
    drop_client();
    return status;
  }
  /// The client's process ends at this instant, in the same way. Callbacks of what was under way
  /// are still called.
  void kill_client() {
    const auto was = database().string();
    ++client_lives_;
    for (const char* part : {"", "-wal", "-shm"})
      if (std::filesystem::exists(was + part))
        std::filesystem::copy_file(was + part, database().string() + part);
    network.detach(*port_);
    end_unseen(engine_->close(false));
    dead_clients_.emplace_back(std::move(port_), std::move(engine_));
  }
  Engine& engine() { return *engine_; }

  /// A message out of the blue.
  void inject(Party from, Party to, const Bytes& message) { network.deliver(from, to, message); }

  // ---- blocking operations

  Result<Bytes> read(BlockId block) {
    std::optional<Result<Bytes>> result;
    engine_->read(block, [&](Result<Bytes> r) { result.emplace(std::move(r)); });
    run_until([&] { return result.has_value(); });
    return std::move(*result);
  }
  Status write(BlockId block, Bytes content) {
    std::optional<Status> result;
    engine_->write(block, std::move(content), [&](Status s) { result.emplace(std::move(s)); });
    run_until([&] { return result.has_value(); });
    return std::move(*result);
  }
  Status commit() {
    std::optional<Status> result;
    engine_->commit([&](Status s) { result.emplace(std::move(s)); });
    run_until([&] { return result.has_value(); });
    return std::move(*result);
  }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    spawn(context.get_executor(), [](Task<T> inner, std::optional<T>& out) -> Task<void> {
      out.emplace(co_await std::move(inner));
    }(std::move(task), result));
    run_until([&] { return result.has_value(); });
    return std::move(*result);
  }
  void run_until(const std::function<bool()>& done) {
    const Duration until = clock.now() + std::chrono::hours(2);
    while (!done()) {
      if (clock.now() > until)
        throw std::logic_error("two hours have passed, but the condition does not hold");
      step();
    }
  }
  /// Goes on by one event.
  void step() {
    context.restart();
    if (pool.toss() && pool.run_one(false)) return;
    if (context.poll_one() != 0 || pool.run_one(true)) return;
    if (!clock.advance())
      throw std::logic_error("nothing left to do, but the condition does not hold");
  }

  /// Lets everything under way end.
  void settle() {
    context.restart();
    while (context.poll_one() != 0 || pool.run_one(true)) context.restart();
  }

  template <class T>
  static void require(const T& result) {
    if (!result) throw std::runtime_error(result.error().message);
  }
  std::filesystem::path database() const {
    return directory_ / fmt::format("vault.{}.db", client_lives_);
  }
  const VolumeParams& params() const { return params_; }

 private:
  struct Running {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<ShareServer> server;
    unsigned lives = 0;
  };
  static Seed seed_of(std::uint64_t number) {
    Seed seed{};
    for (int i = 0; i < 8; ++i) seed[i] = static_cast<std::uint8_t>(number >> (8 * i));
    return seed;
  }
  void end_unseen(Task<Status> task) {
    ++ending_;
    spawn(context.get_executor(), [](Task<Status> inner, std::size_t& ending) -> Task<void> {
      static_cast<void>(co_await std::move(inner));
      --ending;
    }(std::move(task), ending_));
  }
  void drop_client() {
    engine_.reset();
    port_.reset();
  }

  VolumeParams params_;

 public:
  asio::io_context context{1};
  Network network;
  FastClock clock;
  ShuffledPool pool;

 private:
  Prg random_;
  std::filesystem::path directory_;
  VolumeId volume_{};
  Seed key_{};
  std::vector<Running> servers_;
  std::unique_ptr<Transport> port_;
  std::unique_ptr<Engine> engine_;
  unsigned client_lives_ = 0;
  std::size_t ending_ = 0;  // of the dead, those whose coroutines still run
  std::vector<Running> dead_servers_;
  std::vector<std::pair<std::unique_ptr<Transport>, std::unique_ptr<Engine>>> dead_clients_;
};

/// A block whose bytes tell its number and its generation.
inline Bytes pattern(BlockId block, std::uint64_t generation, std::size_t size) {
  Bytes content(size);
  std::uint64_t state = block * 0x9e3779b97f4a7c15u + generation * 0xbf58476d1ce4e5b9u + 1;
  for (auto& byte : content) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::uint8_t>(state >> 56);
  }
  return content;
}

/// ASSERT_OK(result): asserts that there is no error, and prints it if there is.
#define ASSERT_OK(expr)                                    \
  do {                                                     \
    const auto& s3o_result = (expr);                       \
    ASSERT_TRUE(s3o_result) << s3o_result.error().message; \
  } while (false)

}  // namespace s3oram::test
