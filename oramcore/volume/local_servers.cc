// Runs the thread that starts, watches, restarts and stops the servers of a local vault.
#include "oramcore/volume/local_servers.h"

#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "oramcore/base/system_error.h"
#include "oramcore/base/threads.h"
#include "oramcore/volume/server_process.h"

namespace s3oram {
namespace {

using Path = std::filesystem::path;
using SteadyClock = std::chrono::steady_clock;

// If a server ran at least this long before it ended, that counts as its first failure.
constexpr std::chrono::minutes kLongLife{1};

}  // namespace

class LocalServers::Keeper {
 public:
  Keeper(const Path& program, const Path& vault, unsigned count, LocalServersPatience patience,
         const Path& record_of_first)
      : patience_(patience) {
    for (unsigned number = 1; number <= count; ++number)
      servers_.emplace_back(program, vault, number, count, number == 1 ? record_of_first : Path(),
                            patience.restart);
  }
  ~Keeper() {
    if (const Status stopped = stop(); !stopped) spdlog::error("{}", stopped.error().message);
  }

  Status start();
  Status stop();
  bool running(unsigned number) const;
  std::string end(unsigned number) const;
  unsigned restarts(unsigned number) const;

 private:
  struct Server {
    Server(const Path& program, const Path& vault, unsigned number, unsigned count,
           const Path& record, std::chrono::milliseconds pause)
        : process(program, vault, number, count, record), next_pause(pause) {}
    ServerProcess process;
    SteadyClock::time_point launched;
    // The time to launch the server again, if it has ended.
    SteadyClock::time_point again = SteadyClock::time_point::max();
    std::chrono::milliseconds next_pause;
    // Protected by the mutex:
    bool running = false;
    std::string end;
    unsigned restarts = 0;
  };

  void keep();
  Status launch_all();
  Status stop_all();
  void watch();
  void ended(Server& server);
  void launch_again(Server& server);
  void set_running(Server& server, bool running) {
    const std::lock_guard lock(mutex_);
    server.running = running;
    server.end = running ? "" : server.process.end();
  }
  const Server* find(unsigned number) const {
    for (const Server& server : servers_)
      if (server.process.number() == number) return &server;
    return nullptr;
  }

  const LocalServersPatience patience_;
  mutable std::mutex mutex_;
  std::list<Server> servers_;  // used only by the thread, except the fields under the mutex
  Descriptor stop_[2];         // a pipe
  std::promise<Status> started_;
  std::thread thread_;
  Status outcome_;  // how the thread ended; set once it is joined
};

// ---- the thread --------------------------------------------------------------------------------

void LocalServers::Keeper::keep() {
  Status launched = launch_all();
  const bool good = launched.has_value();
  if (!good) static_cast<void>(stop_all());  // the reported error is why they did not start
  started_.set_value(std::move(launched));
  if (!good) return;
  watch();
  outcome_ = stop_all();
}

Status LocalServers::Keeper::launch_all() {
  const auto deadline = SteadyClock::now() + patience_.start;
  for (Server& server : servers_) {
    server.launched = SteadyClock::now();
    S3O_TRY(server.process.launch());
  }
  for (Server& server : servers_) {
    S3O_TRY(server.process.await_ready(deadline));
    set_running(server, true);
  }
  return {};
}

// Watches the servers until stop() closes the pipe.
void LocalServers::Keeper::watch() {
  for (;;) {
    std::vector<pollfd> wanted{{stop_[0].get(), POLLIN, 0}};
    auto next = SteadyClock::time_point::max();
    for (const Server& server : servers_) {
      wanted.push_back({server.process.handle(), POLLIN, 0});  // poll() skips negative ones
      wanted.push_back({server.process.ready(), POLLIN, 0});
      next = std::min(next, server.again);
    }
    int timeout = -1;
    if (next != SteadyClock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - SteadyClock::now());
      timeout = static_cast<int>(std::max<std::int64_t>(0, left.count()));
    }
    if (::poll(wanted.data(), wanted.size(), timeout) < 0) continue;  // interrupted by a signal
    if (wanted[0].revents != 0) return;
    std::size_t at = 1;
    for (Server& server : servers_) {
      const bool end = wanted[at++].revents != 0, news = wanted[at++].revents != 0;
      if (news && server.process.take_readiness()) {
        spdlog::info("server {} listens again", server.process.number());
        set_running(server, true);
      }
      if (end) ended(server);
      if (SteadyClock::now() >= server.again) launch_again(server);
    }
  }
}

void LocalServers::Keeper::ended(Server& server) {
  server.process.reap(SteadyClock::time_point::max());
  set_running(server, false);
  const auto now = SteadyClock::now();
  if (now - server.launched >= kLongLife) server.next_pause = patience_.restart;
  server.again = now + server.next_pause;
  spdlog::error("server {} ended by itself {}; starting it again in {} ms", server.process.number(),
                server.process.end(), server.next_pause.count());
  server.next_pause = std::min(2 * server.next_pause, patience_.longest);
}

void LocalServers::Keeper::launch_again(Server& server) {
  server.launched = SteadyClock::now();
  server.again = SteadyClock::time_point::max();
  {
    const std::lock_guard lock(mutex_);
    ++server.restarts;
  }
  if (const Status launched = server.process.launch(); !launched) {
    spdlog::error("{}", launched.error().message);
    server.again = SteadyClock::now() + patience_.longest;
  }
}

Status LocalServers::Keeper::stop_all() {
  const auto deadline = SteadyClock::now() + patience_.stop;
  std::string problems;
  for (Server& server : servers_) server.process.signal(SIGTERM);
  for (Server& server : servers_) {
    ServerProcess& process = server.process;
    if (!process.reap(deadline)) {
      process.signal(SIGKILL);
      process.reap(SteadyClock::time_point::max());
    }
    set_running(server, false);
    if (!process.ended_well())
      problems += fmt::format("{}server {} did not stop cleanly {}", problems.empty() ? "" : "; ",
                              process.number(), process.end());
  }
  if (!problems.empty()) return fail(Errc::failed, "{}", problems);
  return {};
}

// ---- other threads ------------------------------------------------------------------------------

Status LocalServers::Keeper::start() {
  if (!open_pipe(stop_)) return system_failure(errno, "starting the servers");
  // The thread inherits a mask that leaves all signals to other threads.
  sigset_t every;
  sigset_t before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  auto thread = start_thread("the servers", [this] { keep(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread) return fail(std::move(thread).error());
  thread_ = std::move(*thread);
  return started_.get_future().get();
}

Status LocalServers::Keeper::stop() {
  stop_[1].close();
  if (thread_.joinable()) thread_.join();
  return std::exchange(outcome_, {});
}

bool LocalServers::Keeper::running(unsigned number) const {
  const std::lock_guard lock(mutex_);
  const Server* server = find(number);
  return server && server->running;
}

std::string LocalServers::Keeper::end(unsigned number) const {
  const std::lock_guard lock(mutex_);
  const Server* server = find(number);
  return server && !server->running ? server->end : std::string();
}

unsigned LocalServers::Keeper::restarts(unsigned number) const {
  const std::lock_guard lock(mutex_);
  const Server* server = find(number);
  return server ? server->restarts : 0;
}

Result<LocalServers> LocalServers::start(const Path& serverd, const Path& vault_directory,
                                         unsigned count, LocalServersPatience patience,
                                         const Path& record_of_first) {
  std::error_code error;
  const Path vault = std::filesystem::absolute(vault_directory, error);
  const Path program = std::filesystem::absolute(serverd, error);
  if (error) return fail(Errc::failed, "{}: {}", vault_directory.string(), error.message());
  auto keeper = std::make_unique<Keeper>(program, vault, count, patience, record_of_first);
  S3O_TRY(keeper->start());
  return LocalServers(std::move(keeper));
}

Status LocalServers::stop() { return keeper_->stop(); }
bool LocalServers::running(unsigned number) const { return keeper_->running(number); }
std::string LocalServers::end(unsigned number) const { return keeper_->end(number); }
unsigned LocalServers::restarts(unsigned number) const { return keeper_->restarts(number); }

LocalServers::LocalServers(std::unique_ptr<Keeper> keeper) : keeper_(std::move(keeper)) {}
LocalServers::LocalServers(LocalServers&& other) noexcept = default;
LocalServers& LocalServers::operator=(LocalServers&& other) noexcept = default;
LocalServers::~LocalServers() = default;

}  // namespace s3oram
