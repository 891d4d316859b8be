// Runs a random workload on a volume of any scheme, among random troubles.
#include "tests/sim/simulation.h"

#include "oramcore/protocol/bounds.h"
#include "tests/harness/volumes.h"
#include "tests/schemes/ring/sim/point_watch.h"
#include "tests/schemes/ring/sim/ring_world.h"
#include "tests/sim/cluster.h"
#include "tests/sim/path_watch.h"
#include "tests/sim/troubles.h"
#include "tests/sim/workload.h"

namespace s3oram::test {
namespace {

constexpr std::uint64_t kLeastSteps = 200;
constexpr int kRareOverflow = 20;  // 2^-20
constexpr int kNoOverflow = 60;
constexpr Duration kPatience = std::chrono::hours(24);  // limit for a whole run

std::unique_ptr<SimWorld> make_world(const VolumeParams& params, std::uint64_t seed) {
  if (params.is_ring()) return std::make_unique<ring::test::RingWorld>(params, seed);
  return std::make_unique<Cluster>(params, seed);
}

std::unique_ptr<Watch> make_watch(const VolumeParams& params) {
  if (params.is_ring()) return std::make_unique<ring::test::PointWatch>();
  // A mirror goes on while enough servers answer to do the work.
  return std::make_unique<PathWatch>(
      static_cast<Party>(params.is_mirror() ? params.workers() : params.scheme.servers));
}

class Simulation {
 public:
  Simulation(std::uint64_t seed, Loser loser, SchemeKind kind)
      : random_(seed),
        kind_(kind),
        losing_(loser == Loser::client),
        losing_servers_(loser == Loser::server),
        world_(make_world(losing_ ? choose_safe() : choose_params(), random_())),
        workload_(*world_, choose_blocks(), random_()),
        operations_(choose_operations()),
        at_once_(1 + random_() % 8),
        troubles_(*world_, random_(), 30 + random_() % 600, 1 + random_() % 12),
        watch_(make_watch(world_->params())) {
    world_->pool.shuffle = random_() % 2 == 0;
    world_->on_step = [this, then = world_->on_step](Party party, std::string_view name,
                                                     bool done) {
      evictions_ += party == kClient && name == "decide" && done;
      then(party, name, done);
    };
    world_->network.observer = [this](Party from, Party to, const Bytes& message) {
      watch_->saw(from, to, message);
    };
    if (losing_) {
      workload_.discard_nothing();
      troubles_.let_nobody_lie();  // a rebuild believes what it is told, and reports what it lacks
    }
    workload_.excuses = [this](const Error& error) { return excuses(error); };
    if (losing_servers_) troubles_.let_nothing_rot();  // rot would be a second loss
    troubles_.on_client_death = [this] {
      open_ = false;
      watch_->client_died();
      if (losing_ && (lose_next_ || random_() % 2 == 0)) wiped_ = lost_ = true;
      if (lost_) watch_->client_lost();
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
      world_->end();
    } catch (const std::exception& error) {
      workload_.fail_with(error.what());
    }
    const VolumeParams& params = world_->params();
    report.shape =
        fmt::format("{} t={} l={} Z={} A={} stash={}", name_of(kEvictors, params.evictor),
                    params.scheme.threshold, params.scheme.servers, params.bucket_size,
                    params.evict_every, params.stash_slots);
    report.failure = workload_.failure();
    report.trace = world_->trace.hash();
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
  /// (A ring needs more, because its log is used in rotation.)
  BlockId choose_blocks() {
    return world_->params().is_ring() ? 6 + random_() % 60 : 6 + random_() % 18;
  }
  std::uint64_t choose_operations() {
    return world_->params().is_ring() ? 40 + random_() % 200 : 20 + random_() % 40;
  }
  VolumeParams choose_params() {
    if (kind_ == SchemeKind::ring) return choose_ring();
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
    if (kind_ == SchemeKind::ring) return choose_ring();
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

  VolumeParams choose_ring() {
    using ring::test::small_ring;
    // In some of them blocks stay in the top for long; one uses up its dummies.
    switch (random_() % 8) {
      case 0:
        return small_ring(16, 12, 3);
      case 1:
        return small_ring(128, 126, 1);
      case 2:
        return small_ring(1, 4, 1);
      case 3:
        return small_ring(2, 1, 1);
      case 4:
        return small_ring(8, 6, 1, 4);
      case 5:
        return small_ring(8, 6, 2);
      default:
        return small_ring(4, 3, static_cast<std::uint8_t>(1 + random_() % 2));
    }
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
    world_->clock.call_after(delay, [this] {
      if (world_->runs(kClient)) return;
      if (std::exchange(wiped_, false)) world_->lose_client();
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
    if (!lost_server_) lost_server_ = static_cast<Party>(1 + random_() % world_->servers());
    reenrolled_ = false;
    asio::post(world_->context, [this, server = *lost_server_] {
      if (world_->runs(server)) world_->kill(server);  // the troubles start it again
      world_->lose(server);
    });
  }

  void reenrol() {
    world_->begin_reenrol({*lost_server_}, [this](const Status& status) {
      if (status)
        reenrolled_ = true;
      else
        not_done("adopt", status.error());
      open_later();
    });
  }

  void scrub() {
    spawn(world_->context.get_executor(), [](Simulation& run, Party server) -> Task<void> {
      std::set<Party> servers{server};
      VolumeEngine& engine = run.world_->volume_engine();
      const auto healed = co_await engine.scrub(std::move(servers));
      if (!healed || !run.world_->runs(kClient) || &run.world_->volume_engine() != &engine)
        co_return;
      if (healed->lost > 0) run.workload_.fail_with("slots are lost");
      run.lost_server_.reset();
      ++run.repairs_;
    }(*this, *lost_server_));
  }

  void rebuild() {
    world_->begin_restore_client([this](const Status& restored) {
      if (restored) {
        ++rebuilds_;
        lost_ = false;
      } else {
        not_done("rebuild", restored.error());
      }
      open_later();
    });
  }

  void not_done(const char* what, const Error& error) {
    const bool of_the_disk = error.code == Errc::failed || error.code == Errc::disk_full;
    if (error.code != Errc::unreachable && !(of_the_disk && troubles_.disk_failed()) &&
        !troubles_.lied())
      workload_.fail_with(fmt::format("{}: {}", what, error.message));
  }

  void open() {
    world_->begin_open_client([this](const Status& status) {
      if (status) {
        open_ = true;
        if (const auto wrong = watch_->opened(); !wrong.empty()) workload_.fail_with(wrong);
        if (lost_server_) scrub();
        return;
      }
      not_done("open", status.error());
      // Posted, because the client must not be killed from within the ghost's own callback.
      asio::post(world_->context, [this] {
        if (world_->runs(kClient))
          world_->kill(kClient);
        else
          open_later();
      });
    });
  }

  /// A server's lies may stop a ring, which is then opened again. A block of the top that the
  /// client's disk could not read is there again later.
  bool excuses(const Error& error) {
    if (!world_->params().is_ring()) return false;
    if (troubles_.lied()) stopped_ |= !world_->volume_engine().status().failure.empty();
    return stopped_ ||
           (error.code == Errc::corrupt && (troubles_.lied() || troubles_.disk_failed()));
  }

  bool stuck() {
    if (!workload_.failure().empty()) return true;
    if (world_->clock.now() > kPatience)
      workload_.fail_with(fmt::format("no progress: {} operations begun, {} under way, client {}",
                                      workload_.begun(), workload_.under_way(),
                                      open_ ? "open" : "not open"));
    return !workload_.failure().empty();
  }

  void step() {
    ++steps_;
    world_->step();
    if (std::exchange(stopped_, false) && open_) world_->kill(kClient);
  }

  /// Goes on until everything runs.
  void recover() {
    while (!stuck() && !(open_ && troubles_.all_servers_run() && goes_on())) step();
  }
  bool goes_on() {
    const std::string failure = world_->volume_engine().status().failure;
    if (!failure.empty() && !excuses({Errc::failed, failure})) workload_.fail_with(failure);
    return failure.empty();
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
    recover();
  }

  void check() {
    workload_.check_all();
    height_ = world_->volume_engine().status().height;
    SimWorld::require(world_->commit());
    lose_next_ = true;
    for (Party party = kClient; party <= world_->servers(); ++party) world_->cut(party);
    recover();
    workload_.excuses = {};  // whatever the troubles were, nothing is lost
    if (stuck()) return;
    if (losing_ && rebuilds_ == 0) workload_.fail_with("nothing was rebuilt");
    workload_.check_all();
    SimWorld::require(world_->close_client());
  }

  std::mt19937_64 random_;
  const SchemeKind kind_;
  const bool losing_, losing_servers_;
  const std::unique_ptr<SimWorld> world_;
  Workload workload_;
  const std::uint64_t operations_, at_once_;
  Troubles troubles_;
  const std::unique_ptr<Watch> watch_;
  bool open_ = false, forced_ = false;
  bool stopped_ = false;                                   // the engine cannot go on
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
