// Opens the store, the network and the scheme's server, and runs until a signal.
#include "serverd/run_server.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "oramcore/base/async.h"
#include "oramcore/base/human.h"
#include "oramcore/base/limits.h"
#include "oramcore/base/memory.h"
#include "oramcore/base/memory_limit.h"
#include "oramcore/base/memory_watch.h"
#include "oramcore/base/metrics_responder.h"
#include "oramcore/base/random.h"
#include "oramcore/base/system_error.h"
#include "oramcore/base/workers.h"
#include "oramcore/service/manager.h"
#include "oramcore/zmq/zmq_transport.h"
#include "serverd/any_server.h"
#include "serverd/await_client.h"
#include "serverd/peer_list.h"
#include "serverd/store_files.h"

namespace s3oram {
namespace {

// The time that a previous server may take to end: one that a mount started, which ends with the
// mount, or one that was killed, whose last writes the kernel waits for.
constexpr std::chrono::seconds kOfMount{15}, kKilled{5};
constexpr std::chrono::milliseconds kPoll{50};
constexpr unsigned kReaders = 8;  // more than processors: they wait for the disk

// A parent that ended before this call is noticed when readiness is reported to it. The process may
// have been root before, so nothing that it runs from here on may get rights that it does not have
// itself.
Status exit_with_parent() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
    return system_failure(errno, "--exit-with-parent");
  return {};
}

Result<Descriptor> take_store(const Options& options) {
  const auto limit =
      std::chrono::steady_clock::now() + (options.exit_with_parent ? kOfMount : kKilled);
  for (bool told = false;; told = true) {
    auto lock = lock_store(options.store);
    if (lock || lock.error().code != Errc::vault_in_use ||
        std::chrono::steady_clock::now() >= limit)
      return lock;
    if (!told) spdlog::info("waiting for the previous server to leave {}", options.store);
    std::this_thread::sleep_for(kPoll);
  }
}

Status check_metrics(const Options& options) {
  if (options.metrics.empty()) return {};
  S3O_TRY(check_metrics_address({options.metrics, true}, "--metrics"));
  const Status local = check_metrics_address({options.metrics}, "--metrics");
  if (local || options.metrics_public) return {};
  return fail(Errc::usage, "{}; or give --metrics-public", local.error().message);
}

/// Starts the record. Returns null if the options ask for none.
Result<std::unique_ptr<AccessLog>> start_record(const Options& options, Party self) {
  if (options.record.empty()) return std::unique_ptr<AccessLog>();
  S3O_ASSIGN(auto record, AccessLog::start(options.record, self, options.record_limit));
  spdlog::info("every read and write of slots is recorded in {}", options.record);
  return record;
}

Status report_ready(int fd) {
  const Descriptor pipe(fd);
  if (::write(fd, "\n", 1) != 1)
    return fail(Errc::failed,
                "--ready-fd {}: {}; it must be the writing end of a pipe that the starter reads",
                fd, std::strerror(errno));
  return {};
}

/// Lowers the priority of the calling thread, so that evictions do not take the processor from
/// retrievals.
void lower_priority() {
  constexpr int kNicer = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNicer);
}

/// The program's needs without a cache. (Connections take descriptors, for a while even those of
/// strangers that say nothing.)
constexpr Needs kNeeds{
    .file_bytes = 16 << 20, .open_files = 128, .address_space = std::uint64_t{192} << 20};

/// Returns how many servers share the memory: those of a local vault, or only this one.
unsigned servers_here(const Options& options, const ZmqConfig& network) {
  return options.exit_with_parent ? static_cast<unsigned>(network.peers.size()) + 1 : 1;
}

/// Makes the size of the server's cache follow the free memory.
Result<std::unique_ptr<MemoryWatch>> watch_memory(ShareServer& server, std::size_t cache,
                                                  asio::io_context& io, Executor background) {
  return MemoryWatch::start([&server, cache, &io, background](unsigned shift) {
    asio::post(io, [&server, cache, background, shift] {
      server.set_cache_bytes(cache >> shift);
      asio::post(background, give_back_freed_memory);
    });
  });
}

Task<void> stop(ShareServer& server, asio::io_context& io, Status& outcome) {
  outcome = co_await server.stop();
  io.stop();
}

/// The keys of the clients that a server admits, as its store lists them.
class Clients {
 public:
  /// `seen`: state_of() when the transport's keys were read.
  Clients(const Options& options, ZmqTransport& transport, std::string seen)
      : store_(options.store), transport_(transport), seen_(std::move(seen)) {}

  /// Identifies the file and its state; any change to the file changes the result.
  static std::string state_of(const Path& store) {
    struct stat found {};
    if (::stat((store / "clients").c_str(), &found) != 0) return "";
    return fmt::format("{} {} {}.{}", found.st_ino, found.st_size, found.st_mtim.tv_sec,
                       found.st_mtim.tv_nsec);
  }

  void admit() {
    seen_ = state_of(store_);
    const auto clients = read_clients(store_);
    const Status admitted =
        clients ? transport_.admit_clients(*clients) : Status(fail(clients.error()));
    if (admitted)
      spdlog::info("from now on, {} client keys are admitted", clients->size());
    else
      spdlog::error(
          "the list of clients could not be applied, and the previous one stays in force: {}",
          admitted.error().message);
  }
  void admit_if_changed() {
    if (state_of(store_) != seen_) admit();
  }

 private:
  const Path store_;
  ZmqTransport& transport_;
  std::string seen_;
};

/// Looks after the store and the clients as long as the executor runs.
Task<void> look_after(ShareServer& server, Clients& clients, Clock& clock) {
  constexpr auto kEvery = std::chrono::seconds(1);
  for (;;) {
    co_await clock.sleep(kEvery);
    server.look_after_store();
    clients.admit_if_changed();
  }
}

void admit_on_hangup(asio::signal_set& hangup, Clients& clients) {
  hangup.async_wait([&](const boost::system::error_code& error, int) {
    if (error) return;
    clients.admit();
    admit_on_hangup(hangup, clients);
  });
}

/// Opens the page of metrics. Returns null if the options name none.
Result<std::unique_ptr<MetricsResponder>> open_metrics(asio::io_context& io, const Options& options,
                                                       ShareServer& server, Metrics& metrics) {
  if (options.metrics.empty()) return std::unique_ptr<MetricsResponder>();
  S3O_ASSIGN(auto responder,
             MetricsResponder::listen(io.get_executor(), {options.metrics, options.metrics_public},
                                      [&server, &metrics] {
                                        server.gauge();
                                        return metrics.text();
                                      }));
  spdlog::info("metrics are at http://{}/metrics", responder->address());
  return responder;
}

void warn_of_small_files() {
  if (const auto most = file_size_limit(); most != kNoLimit)
    spdlog::warn(
        "this server's volume cannot grow beyond files of {}: that is the limit of file sizes "
        "(ulimit -f, LimitFSIZE=)",
        human_size(most));
}

void warn_of_no_client(const Options& options, const ZmqConfig& network) {
  if (network.client_keys.empty() && network.listen.starts_with("tcp"))
    spdlog::warn("no client may connect yet: 's3oramfs-serverd authorize --store {} KEY'",
                 shell_word(options.store));
}

/// Checks what can be checked before the store is locked.
Status check(const Options& options) {
  S3O_TRY(check_limits("this server", kNeeds));
  if (options.exit_with_parent) S3O_TRY(exit_with_parent());
  if (options.store.empty())
    return fail(Errc::usage, "the server's store is not given: give --store DIR");
  return check_metrics(options);
}

/// Checks that the server knows the addresses of all other servers of its volume.
Status check_peers(const Options& options, const ShareServer& server, std::size_t peers) {
  if (server.parties() <= peers + 1) return {};
  return fail(Errc::usage,
              "store {}: its volume has {} servers, and this one is told of {} others; list them "
              "with 's3oramfs-serverd peers'",
              options.store, server.parties(), peers);
}

}  // namespace

Status serve(const Options& options) {
  ::signal(SIGPIPE, SIG_IGN);  // so that write() fails if the starter is gone
  S3O_TRY(check(options));
  S3O_ASSIGN(const auto lock, take_store(options));
  // A server that a mount has started is not a service of its own.
  ServiceManager manager(options.exit_with_parent ? ServiceManager::Whose::another
                                                  : ServiceManager::Whose::ours);
  S3O_ASSIGN(const Joined joined, await_client(options, manager));
  if (joined == Joined::told_to_stop) return {};
  const std::string clients_seen = Clients::state_of(options.store);
  S3O_ASSIGN(const auto network, network_config(options));

  asio::io_context io(1);
  asio::signal_set end(io, SIGTERM, SIGINT, SIGXCPU);
  asio::signal_set hangup(io, SIGHUP);
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const unsigned threads = options.threads ? options.threads : cores;
  Workers pool(threads), background(threads, lower_priority);
  Workers readers(std::max(kReaders, threads));
  SystemClock clock(io.get_executor());
  SystemRandom random;
  Metrics metrics;
  S3O_ASSIGN(const auto transport, make_zmq_transport(io.get_executor(), network));
  const unsigned sharing = servers_here(options, network);
  const std::uint64_t memory = usable_memory();
  const std::size_t cache = options.cache ? options.cache : default_cache_bytes(memory, sharing);
  S3O_ASSIGN(const auto record, start_record(options, network.self));
  PeerList peers(options, network.self, *transport);
  S3O_ASSIGN(
      const auto server,
      open_server(options.store, network.self,
                  {io.get_executor(), pool.executor(), background.executor(), readers.executor(),
                   clock, random, *transport, system_disk(), memory / sharing, cache, metrics,
                   record.get(), [&peers](const std::string& peer) { return peers.take(peer); }}));
  S3O_TRY(check_peers(options, *server, network.peers.size()));
  S3O_ASSIGN(const auto responder, open_metrics(io, options, *server, metrics));
  S3O_ASSIGN(const auto memory_watch, watch_memory(*server, cache, io, background.executor()));
  warn_of_small_files();

  Status outcome;
  end.async_wait([&](const boost::system::error_code& error, int) {
    if (error) return;
    spdlog::info("server {} stops", network.self);
    manager.stopping();
    spawn(io.get_executor(), stop(*server, io, outcome));
  });
  Clients clients(options, *transport, clients_seen);
  admit_on_hangup(hangup, clients);
  spdlog::info("server {} listens on {}", network.self, transport->endpoint());
  warn_of_no_client(options, network);
  if (options.ready_fd >= 0) S3O_TRY(report_ready(options.ready_fd));
  manager.ready(fmt::format("Server {} listens on {}", network.self, transport->endpoint()));
  spawn(io.get_executor(), look_after(*server, clients, clock));
  const Watchdog watchdog(io.get_executor(), manager);
  io.run();
  readers.join();
  background.join();
  pool.join();
  return outcome;
}

}  // namespace s3oram
