// Sends probes to the servers, and has the servers send probes to each other.
#include "oramcore/volume/measure_lines.h"

#include <algorithm>

#include "oramcore/client/servers.h"
#include "oramcore/net/line_probe.h"
#include "oramcore/volume/connection.h"

namespace s3oram {
namespace {

constexpr Duration kEach = std::chrono::milliseconds(500);     // up, down, between
constexpr Duration kEachFar = std::chrono::milliseconds(900);  // if servers are far away
constexpr Duration kAll = std::chrono::seconds(4);             // all of it, at most
constexpr Duration kAnswers = std::chrono::seconds(1);         // patience for a probe
constexpr std::size_t kMostBytes = 32 << 20;                   // each way

enum class Way { up, down };

/// Measures one direction after the other, so that each finds empty lines.
class Measuring {
 public:
  Measuring(Executor executor, Clock& clock, Random& random, Transport& transport, unsigned servers)
      : executor_(executor),
        clock_(clock),
        until_(clock.now() + kAll),
        rpc_(std::move(executor), clock, random, transport) {
    for (unsigned server = 1; server <= servers; ++server)
      servers_.push_back(static_cast<Party>(server));
  }

  Task<MeasuredLines> run(WantedLines wanted) {
    MeasuredLines lines;
    if (wanted.line) {
      const LineRate up = co_await rate(Way::up), down = co_await rate(Way::down);
      lines.up = up.bytes_per_second;
      lines.down = down.bytes_per_second;
      lines.round_trip = std::chrono::duration<double>(up.round_trip).count();
    }
    if (wanted.between && servers_.size() > 1) lines.between = co_await between();
    lines.why = why_;
    co_return lines;
  }

 private:
  Task<LineRate> rate(Way way) {
    LineProbe probe(executor_, clock_,
                    [this, way](Party to, std::size_t bytes) { return carry(way, to, bytes); });
    co_return co_await probe.run(servers_, {kEach, kEachFar, kMostBytes, ProbeRequest::kMost});
  }

  Task<bool> carry(Way way, Party server, std::size_t bytes) {
    const std::size_t back = way == Way::down ? bytes : 0;
    const Bytes padding(way == Way::up ? bytes : 0);
    const ProbeRequest request{static_cast<std::uint32_t>(back), padding};
    auto answer =
        co_await rpc_.call(server, ProbeRequest::kType, encode(request), patience(kAnswers));
    if (!answer) {
      note(server, answer.error());
      co_return false;
    }
    const auto probe = decode<ProbeAnswer>(answer->body());
    co_return probe && probe->padding.size() == back;
  }

  /// Returns the rate of the slowest server, because all servers send each other the same amount.
  Task<double> between() {
    const MeasureRequest request{static_cast<std::uint16_t>(kEach / std::chrono::milliseconds(1)),
                                 servers_};
    const auto answers = co_await for_each_of(servers_, [&](Party server) {
      return rpc_.call(server, MeasureRequest::kType, encode(request), patience(kAll));
    });
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i]) note(servers_[i], answers[i].error());
      const auto said = answers[i] ? decode<MeasureAnswer>(answers[i]->body()) : std::nullopt;
      if (answers[i] && (!said || said->bytes_per_second == 0) && why_.empty())
        why_ = fmt::format("server {} does not reach the others", servers_[i]);
      least = std::min(least, said ? static_cast<double>(said->bytes_per_second) : 0);
    }
    co_return least;
  }

  Duration patience(Duration most) const {
    return std::clamp(until_ - clock_.now(), Duration(0), most);
  }

  /// Keeps only the first reason.
  void note(Party server, const Error& error) {
    if (!why_.empty()) return;
    why_ = error.code == Errc::bad_request
               ? fmt::format("server {} is of an older version", server)
               : fmt::format("server {} did not answer in time", server);
  }

  Executor executor_;
  Clock& clock_;
  const Duration until_;
  Bytes servers_;
  std::string why_;
  Rpc rpc_;
};

}  // namespace

Task<MeasuredLines> measure_lines(Executor executor, Clock& clock, Random& random,
                                  Transport& transport, unsigned servers, WantedLines wanted) {
  Measuring measuring(executor, clock, random, transport, servers);
  co_return co_await measuring.run(wanted);
}

Result<FoundLines> measure_lines(const Vault& vault, const VaultKeys& keys,
                                 const VolumeOptions& options, WantedLines wanted) {
  S3O_ASSIGN(auto connection, Connection::make(vault, keys, options));
  FoundLines found;
  const Status measured = connection->run([&]() -> Task<Status> {
    Connection& c = *connection;
    {
      Servers servers(c.executor(), c.clock(), c.random(), c.transport(), vault.config().volume,
                      c.servers());
      S3O_CO_TRY(co_await c.await_servers(servers, options, c.servers()));
      S3O_CO_ASSIGN(const auto hellos, co_await servers.hello(options.deadline));
      found.is_made = std::ranges::any_of(hellos, [&](const HelloAnswer& hello) {
        return hello.volume && hello.volume->id == vault.config().volume;
      });
    }
    if (found.is_made) co_return Status{};
    if (options.progress) options.progress("measuring the lines");
    found.lines = co_await measure_lines(c.executor(), c.clock(), c.random(), c.transport(),
                                         c.servers(), wanted);
    co_return Status{};
  });
  if (!measured) return fail(connection->explain(measured).error());
  return found;
}

}  // namespace s3oram
