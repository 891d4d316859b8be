// The client's network thread and transport and, for a local vault, its servers. Volumes are made,
// opened, repaired and rebuilt over a Connection.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "oramcore/client/servers.h"
#include "oramcore/volume/local_servers.h"
#include "oramcore/volume/volume.h"
#include "oramcore/zmq/zmq_transport.h"

namespace s3oram {

/// The thread on which connections, engines and devices run, with its clock and randomness.
class NetworkThread {
 public:
  static Result<std::shared_ptr<NetworkThread>> start();
  ~NetworkThread();

  /// Runs `work()` on the thread and returns its result.
  template <class Work>
  auto on_thread(Work work) {
    std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
    auto result = task.get_future();
    asio::post(io_, std::move(task));
    return result.get();
  }
  /// Runs the coroutine `work()` on the thread and returns its result.
  template <class Work>
  auto run(Work work) {
    std::promise<typename std::invoke_result_t<Work>::value_type> done;
    auto result = done.get_future();
    asio::post(io_, [&] {
      spawn(executor(), [](Work& start, decltype(done)& out) -> Task<void> {
        out.set_value(co_await start());
      }(work, done));
    });
    return result.get();
  }

  Executor executor() { return io_.get_executor(); }
  SystemClock& clock() { return clock_; }
  SystemRandom& random() { return random_; }

 private:
  NetworkThread() : guard_(io_.get_executor()), clock_(io_.get_executor()) {}

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  SystemClock clock_;
  SystemRandom random_;
  std::thread thread_;
};

/// Everything that is not thread-safe is made, used and destroyed on the thread.
class Connection {
 public:
  /// Starts the transport, on `thread` or a new one. For a local vault, also starts its servers,
  /// and changes the working directory of the process to the vault's run/. Errors: wrong_volume (a
  /// local store is gone), failed.
  static Result<std::unique_ptr<Connection>> make(const Vault& vault, const VaultKeys& keys,
                                                  const VolumeOptions& options,
                                                  std::shared_ptr<NetworkThread> thread = {});
  ~Connection();

  /// These two are those of NetworkThread.
  template <class Work>
  auto on_thread(Work work) {
    return thread_->on_thread(std::move(work));
  }
  template <class Work>
  auto run(Work work) {
    return thread_->run(std::move(work));
  }

  /// Waits until every server says hello. Once `enough` servers have done so, waits no longer than
  /// `grace` in all. Errors: unreachable and refused_key, naming the server; damaged_vault
  /// (vault.json and the servers have different numbers).
  Task<Status> await_servers(Servers& servers, const VolumeOptions& options, unsigned enough,
                             Duration grace = Servers::kGrace);

  /// Returns why the server does not admit us: it refuses our key, has a different key, or (if it
  /// is local) has ended. Empty if the reason is not known.
  std::string refusal(Party server) const;
  /// Returns a server's name for messages, with its address unless the vault is local.
  std::string name(Party server) const;
  /// Names several servers: "servers 1 (a.example:5760), 2 (...)". The parentheses can be left out
  /// where space is short. They also say what is wrong with an insecure server and, with
  /// Lookup::yes, which may take seconds, why a name has no address.
  enum class Lookup { no, yes };
  std::string names(const std::vector<Party>& servers, Lookup lookup = Lookup::no) const;
  /// Lets a server's message name the command for servers of the source, if this is the source.
  std::string with_remedy(std::string message) const;
  /// Does the same, and adds the address to each "server N" in a message.
  std::string named(std::string message) const;
  /// Adds the servers' addresses and the vault to an error.
  Status explain(Status status) const;

  /// Checks, over a separate connection, that the server at `address` has this number, admits this
  /// client, and holds no other volume. Must not be called on the thread. Errors: unreachable,
  /// refused_key, wrong_volume, failed.
  Status check_newcomer(Party server, const ServerAddress& address, Duration patience);
  /// Records a server's address and key in `vault`, which is the one of this connection, and uses
  /// them from now on. Must be called on the thread.
  Status exchange(Vault& vault, Party server, const ServerAddress& address);

  unsigned restarts(Party server) const { return local_ ? local_->restarts(server) : 0; }
  Status stop_servers() { return local_ ? local_->stop() : Status{}; }

  Executor executor() { return thread_->executor(); }
  SystemClock& clock() { return thread_->clock(); }
  SystemRandom& random() { return thread_->random(); }
  ZmqTransport& transport() { return *transport_; }
  unsigned servers() const { return config_.params.scheme.servers; }

 private:
  Connection(const Vault& vault, std::shared_ptr<NetworkThread> thread);
  Status start(const Vault& vault, const VaultKeys& keys, const VolumeOptions& options);
  Status start_local_servers(const Vault& vault, const VolumeOptions& options);
  Task<Status> greet(Party server, const ServerAddress& address, Duration patience);
  Status check_numbers(const std::vector<HelloAnswer>& hellos) const;

  VaultConfig config_;
  const std::filesystem::path directory_;
  const std::string which_;  // precedes "server 1" if there are two volumes
  KeyPair keys_;             // the client's
  std::optional<LocalServers> local_;
  std::shared_ptr<NetworkThread> thread_;
  std::unique_ptr<ZmqTransport> transport_;
};

}  // namespace s3oram
