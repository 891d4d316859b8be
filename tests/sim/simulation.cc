#include "tests/sim/simulation.h"

#include "oramcore/protocol/bounds.h"
#include "tests/harness/volumes.h"
#include "tests/sim/path_watch.h"
#include "tests/sim/troubles.h"
#include "tests/sim/workload.h"

namespace s3oram::test {
namespace {

constexpr std::uint64_t kLeastSteps = 200;
constexpr int kRareOverflow = 20;  // 2^-20
constexpr int kNoOverflow = 60;
constexpr Duration kPatience = std::chrono::hours(24);  // limit for a whole run

class Simulation {
 public:
  Simulation(std::uint64_t seed, Loser loser, SchemeKind kind)
      : random_(seed),
        kind_(kind),
        losing_(loser == Loser::client),
        losing_servers_(loser == Loser::server),
        cluster_(losing_ ? choose_safe() : choose_params(), random_()),
        workload_(cluster_, 6 + random_() % 18, random_()),
        operations_(20 + random_() % 40),
        at_once_(1 + random_() % 8),
        troubles_(cluster_, random_(), 30 + random_() % 600, 1 + random_() % 12) {
    cluster_.pool.shuffle = random_() % 2 == 0;
    cluster_.on_step = [this, then = cluster_.on_step](Party party, std::string_view name,
                                                       bool done) {
      evictions_ += party == kClient && name == "decide" && done;
      then(party, name, done);
    };
    cluster_.network.observer = [this](Party from, Party to, const Bytes& message) {
      paths_.saw(from, to, message);
    };
    if (losing_) workload_.discard_nothing();
    if (losing_servers_) troubles_.let_nothing_rot();  // rot would be a second loss
    troubles_.on_client_death = [this] {
      open_ = false;
      paths_.client_died();
      if (losing_ && (lose_next_ || random_() % 2 == 0)) wiped_ = lost_ = true;
      if (lost_) paths_.client_lost();
      workload_.client_died(lost_);
      if (losing_servers_ && random_() % 2 == 0) lose_server();
      open_later();
    };
  }

  RunReport run() {
    RunReport report;
    try {
      go();
      if (workload_.failure().empty()) check();
      cluster_.end();
    } catch (const std::exception& error) {
      workload_.fail_with(error.what());
    }
    const VolumeParams& params = cluster_.params();
    report.shape =
        fmt::format("{} t={} l={} Z={} A={} stash={}", name_of(kEvictors, params.evictor),
                    params.scheme.threshold, params.scheme.servers, params.bucket_size,
                    params.evict_every, params.stash_slots);
    report.failure = workload_.failure();
    report.trace = cluster_.trace.hash();
    report.steps = steps_;
    report.operations = workload_.begun();
    report.troubles = troubles_.begun();
    report.cuts = troubles_.cuts();
    report.evictions = evictions_;
    report.rebuilds = rebuilds_;
    report.repairs = repairs_;
    report.height = height_;
    report.coverage = troubles_.coverage;
    return report;
  }

 private:
  VolumeParams choose_params() {
    if (kind_ == SchemeKind::mirror) return choose_mirror();
    if (random_() % 2 == 0) return choose_shuffle();
    const Scheme schemes[] = {{1, 3}, {1, 3}, {1, 3}, {1, 4}, {2, 5}};
    const auto evict_every = static_cast<std::uint16_t>(1 + random_() % 4);
    // Includes buckets that are far too small, because nothing may depend on luck.
    const auto bucket_size = random_() % 4 == 0
                                 ? min_bucket_size(evict_every, kRareOverflow)
                                 : static_cast<std::uint16_t>(evict_every + 2 + random_() % 4);
    return {schemes[random_() % std::size(schemes)], 512, bucket_size, evict_every};
  }
  /// A volume in which nothing overflows, because the client's stash would be lost with its disk.
  VolumeParams choose_safe() {
    if (kind_ == SchemeKind::mirror)
      return mirror_volume(4, 3, min_stash_slots(4, 3, kNoOverflow), choose_mirrors());
    const auto evict_every = static_cast<std::uint16_t>(1 + random_() % 4);
    const auto privacy = random_() % 2 ? Privacy::computational : Privacy::information_theoretic;
    if (random_() % 2 == 0)
      return {.scheme = {1, 3},
              .block_size = 512,
              .bucket_size = 4,
              .evict_every = std::min<std::uint16_t>(evict_every, 3),
              .evictor = Evictor::shuffle,
              .stash_slots = min_stash_slots(4, 3, kNoOverflow),
              .privacy = Privacy::computational};
    const Scheme schemes[] = {{1, 3}, {1, 4}, {2, 5}};
    return {.scheme = schemes[random_() % std::size(schemes)],
            .block_size = 512,
            .bucket_size = min_bucket_size(evict_every, kNoOverflow),
            .evict_every = evict_every,
            .privacy = privacy};
  }
  VolumeParams choose_shuffle() {
    const auto evict_every = static_cast<std::uint16_t>(1 + random_() % 5);
    const auto bucket_size = static_cast<std::uint16_t>(1 + random_() % 5);
    const bool safe = random_() % 4 == 0;
    return {.scheme = {1, 3},
            .block_size = 512,
            .bucket_size = safe ? std::uint16_t{4} : bucket_size,
            .evict_every = safe ? std::uint16_t{3} : evict_every,
            .evictor = Evictor::shuffle,
            .stash_slots = safe ? min_stash_slots(4, 3, kRareOverflow)
                                : static_cast<std::uint16_t>(bucket_size * (1 + random_() % 3)),
            .privacy = Privacy::computational};
  }

  Scheme choose_mirrors() {
    const Scheme schemes[] = {{1, 2}, {1, 2}, {1, 3}, {2, 3}, {2, 4}, {1, 4}};
    return schemes[random_() % std::size(schemes)];
  }
  VolumeParams choose_mirror() {
    VolumeParams params = choose_shuffle();
    params.evictor = Evictor::selection;
    params.scheme = choose_mirrors();
    return params;
  }

  void open_later() {
    const Duration delay(random_() % 5'000'000'000);
    cluster_.clock.call_after(delay, [this] {
      if (cluster_.runs(kClient)) return;
      if (std::exchange(wiped_, false)) cluster_.lose_client();
      if (lost_)
        rebuild();
      else if (lost_server_ && !reenrolled_)
        reenrol();
      else
        open();
    });
  }

  /// Loses the disk of a server: the same one as last time, unless that one has all its shares
  /// again.
  void lose_server() {
    if (!lost_server_) lost_server_ = static_cast<Party>(1 + random_() % cluster_.servers());
    reenrolled_ = false;
    asio::post(cluster_.context, [this, server = *lost_server_] {
      if (cluster_.runs(server)) cluster_.kill(server);  // the troubles start it again
      cluster_.lose(server);
    });
  }

  void reenrol() {
    cluster_.begin_reenrol({*lost_server_}, [this](const Status& status) {
      if (status)
        reenrolled_ = true;
      else
        not_done("adopt", status.error());
      open_later();
    });
  }

  void scrub() {
    spawn(cluster_.context.get_executor(), [](Simulation& run, Party server) -> Task<void> {
      std::set<Party> servers{server};
      Engine& engine = run.cluster_.engine();
      const auto healed = co_await engine.scrub(std::move(servers));
      if (!healed || !run.cluster_.runs(kClient) || &run.cluster_.engine() != &engine) co_return;
      if (healed->lost > 0) run.workload_.fail_with("slots are lost");
      run.lost_server_.reset();
      ++run.repairs_;
    }(*this, *lost_server_));
  }

  void rebuild() {
    cluster_.begin_rebuild_client([this](const Result<Rebuilt>& rebuilt) {
      // A life that has ended since made it.
      const bool there = !rebuilt && rebuilt.error().code == Errc::exists;
      if (rebuilt || there) {
        rebuilds_ += rebuilt.has_value();
        lost_ = false;
      } else {
        not_done("rebuild", rebuilt.error());
      }
      open_later();
    });
  }

  void not_done(const char* what, const Error& error) {
    const bool of_the_disk = error.code == Errc::failed || error.code == Errc::disk_full;
    if (error.code != Errc::unreachable && !(of_the_disk && troubles_.disk_failed()))
      workload_.fail_with(fmt::format("{}: {}", what, error.message));
  }

  void open() {
    cluster_.begin_open_client([this](const Status& status) {
      if (status) {
        open_ = true;
        if (const auto wrong = paths_.opened(); !wrong.empty()) workload_.fail_with(wrong);
        if (lost_server_) scrub();
        return;
      }
      not_done("open", status.error());
      // Posted, because the client must not be killed from within the ghost's own callback.
      asio::post(cluster_.context, [this] {
        if (cluster_.runs(kClient))
          cluster_.kill_client();
        else
          open_later();
      });
    });
  }

  bool stuck() {
    if (!workload_.failure().empty()) return true;
    if (cluster_.clock.now() > kPatience)
      workload_.fail_with(fmt::format("no progress: {} operations begun, {} under way, client {}",
                                      workload_.begun(), workload_.under_way(),
                                      open_ ? "open" : "not open"));
    return !workload_.failure().empty();
  }

  void step() {
    ++steps_;
    cluster_.step();
  }

  void go() {
    open();
    while (!stuck()) {
      const bool enough = workload_.begun() >= operations_ && steps_ >= kLeastSteps;
      if (enough && troubles_.cuts() > 0 && workload_.under_way() == 0 && open_) break;
      troubles_.step();
      if (workload_.begun() >= operations_ / 2 && troubles_.cuts() == 0 && !forced_) {
        forced_ = true;
        troubles_.force_cut();
      }
      if (open_ && workload_.under_way() < at_once_ && (!enough || troubles_.cuts() == 0))
        workload_.begin_one();
      step();
    }
    troubles_.end();
    while (!stuck() && !(open_ && troubles_.all_servers_run())) step();
  }

  void check() {
    workload_.check_all();
    height_ = cluster_.engine().status().height;
    Cluster::require(cluster_.commit());
    lose_next_ = true;
    for (Party party = kClient; party <= cluster_.servers(); ++party) cluster_.cut(party);
    while (!stuck() && !(open_ && troubles_.all_servers_run())) step();
    if (stuck()) return;
    if (losing_ && rebuilds_ == 0) workload_.fail_with("nothing was rebuilt");
    workload_.check_all();
    Cluster::require(cluster_.close_client());
  }

  std::mt19937_64 random_;
  const SchemeKind kind_;
  const bool losing_, losing_servers_;
  Cluster cluster_;
  Workload workload_;
  const std::uint64_t operations_, at_once_;
  Troubles troubles_;
  // A mirror goes on while enough servers answer to do the work.
  PathWatch paths_{static_cast<Party>(cluster_.params().is_mirror() ? cluster_.params().workers()
                                                                    : cluster_.servers())};
  bool open_ = false, forced_ = false;
  bool lose_next_ = false, wiped_ = false, lost_ = false;  // the client's disk
  std::optional<Party> lost_server_;                       // set while that server lacks shares
  bool reenrolled_ = false;                                // it has its place again
  std::uint64_t steps_ = 0, evictions_ = 0, rebuilds_ = 0, repairs_ = 0;
  unsigned height_ = 0;
};

}  // namespace

RunReport simulate(std::uint64_t seed, Loser loser, SchemeKind kind) {
  return Simulation(seed, loser, kind).run();
}

}  // namespace s3oram::test
