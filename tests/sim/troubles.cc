#include "tests/sim/troubles.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

namespace s3oram::test {
namespace {

constexpr std::array<const char*, 6> kClientSteps = {"session", "forget-sessions", "intent",
                                                     "commit",  "decide",          "tables"};
constexpr std::array<const char*, 7> kServerSteps = {"session", "attempt", "slots", "prepared",
                                                     "flip",    "discard", "slots"};

}  // namespace

Troubles::Troubles(Cluster& cluster, std::uint64_t seed, std::uint64_t mean, std::size_t most)
    : cluster_(cluster), random_(seed), mean_(mean), most_(most), rotting_(any_server()) {
  for (const Kind kind : {Kind::cut_all, Kind::kill, Kind::restart, Kind::sync, Kind::full,
                          Kind::faulty, Kind::rot, Kind::network, Kind::partition, Kind::clock})
    if (random_() % 3 != 0) kinds_.push_back(kind);
  kinds_.insert(kinds_.end(), {Kind::cut, Kind::cut_at_step, Kind::cut_at_step});
  wait_ = random_() % (2 * mean_);
  cluster_.on_death = [this](Party party) { died(party); };
  cluster_.on_step = [this](Party party, std::string_view name, bool done) {
    announced(party, name, done);
  };
}

void Troubles::step() {
  if (ended_ || begun_ >= most_ || wait_-- > 0) return;
  wait_ = random_() % (2 * mean_);
  ++begun_;
  begin(kinds_[random_() % kinds_.size()]);
}

void Troubles::force_cut() {
  ++begun_;
  if (random_() % 3 == 0)
    cut_all(kClient, cluster_.servers());
  else
    cluster_.cut(any_party());
}

void Troubles::later(std::function<void()> then) {
  const Duration most = random_() % 2 ? std::chrono::seconds(1) : std::chrono::seconds(60);
  cluster_.clock.call_after(Duration(random_() % static_cast<std::uint64_t>(most.count())),
                            std::move(then));
}

void Troubles::begin(Kind kind) {
  constexpr const char* kNames[] = {"cut",     "cut at a step", "cut all",   "kill",
                                    "restart", "sync",          "full",      "faulty",
                                    "rot",     "network",       "partition", "clock"};
  const Party party = any_party();
  spdlog::debug("trouble: {} (party {})", kNames[static_cast<int>(kind)], party);
  SimDisk& disk = cluster_.disk(party);
  switch (kind) {
    case Kind::cut:
      disk.cut_after(1 + random_() % (random_() % 2 ? 10 : 100));
      return;
    case Kind::cut_at_step: {
      const char* name = party == kClient ? kClientSteps[random_() % kClientSteps.size()]
                                          : kServerSteps[random_() % kServerSteps.size()];
      armed_ = {party, name, random_() % 2 == 0, random_() % 3, random_() % 3 == 0};
      return;
    }
    case Kind::cut_all:
      return cut_all(random_() % 2 ? kClient : Party{1}, cluster_.servers());
    case Kind::kill:
      killing_ = true;
      if (cluster_.runs(party)) cluster_.kill(party);
      killing_ = false;
      return;
    case Kind::restart: {
      const Party server = any_server();
      if (!cluster_.runs(server)) return;
      static_cast<void>(cluster_.try_stop_server(server));  // may fail because of a bad disk
      // The server may have lost its power meanwhile.
      if (!cluster_.runs(server)) start_later(server);
      return;
    }
    case Kind::sync:
      disk_failed_ = true;
      return disk.fail_next_sync();
    case Kind::full:
      disk_failed_ = true;
      disk.leave_space(random_() % 2 ? 0 : random_() % 65536);
      return later([this, party] { cluster_.disk(party).leave_space({}); });
    case Kind::faulty:
      disk_failed_ = true;
      disk.faults = {.read = 0.01, .write = 0.02, .sync = 0.02};
      return later([this, party] { cluster_.disk(party).faults = {}; });
    case Kind::rot:
      return rot();
    case Kind::network: {
      const auto rate = [this] { return static_cast<double>(random_() % 100) / 500; };
      cluster_.network.faults.lost = rate();
      cluster_.network.faults.doubled = rate();
      cluster_.network.faults.late = rate();
      return later([this] { cluster_.network.faults = {}; });
    }
    case Kind::partition:
      cluster_.network.filter = [party](Party from, Party to, const Bytes&) {
        return from != party && to != party;
      };
      return later([this] { cluster_.network.filter = {}; });
    case Kind::clock:
      if (random_() % 2)
        cluster_.clock_of(party).jump(std::chrono::seconds(1 + random_() % 100));
      else
        cluster_.clock_of(party).set_rate(0.25 + static_cast<double>(random_() % 16) / 4);
      return;
  }
}

void Troubles::rot() {
  SimDisk& disk = cluster_.disk(rotting_);
  const std::string slots = cluster_.slots().string();
  const std::size_t size = disk.content(slots).size();
  for (std::uint64_t left = 1 + random_() % 4; left > 0 && size > 0; --left)
    disk.rot(slots, random_() % size, static_cast<std::uint8_t>(1 << random_() % 8));
}

void Troubles::cut_all(Party first, Party last) {
  for (Party party = first; party <= last; ++party) cluster_.cut(party);
}

void Troubles::announced(Party party, std::string_view name, bool done) {
  if (done) coverage.persisted(party, name);
  if (!armed_ || ended_ || armed_->party != party || armed_->name != name || armed_->done != done ||
      armed_->times-- > 0)
    return;
  const bool everybody = armed_->everybody;
  armed_.reset();
  cluster_.cut(party);
  if (everybody) cut_all(kClient, cluster_.servers());
}

void Troubles::died(Party party) {
  if (!killing_) {
    ++cuts_;
    coverage.cut();
  }
  if (party == kClient)
    on_client_death();
  else
    start_later(party);
}

void Troubles::start_later(Party server) {
  later([this, server] {
    if (cluster_.runs(server)) return;
    // A bad disk may make this fail. After a power cut the server is started again as after any
    // death.
    const auto cuts = cuts_;
    if (!cluster_.try_start_server(server) && cuts == cuts_) start_later(server);
  });
}

void Troubles::end() {
  ended_ = true;
  cluster_.network.faults = {};
  cluster_.network.filter = {};
  for (Party party = kClient; party <= cluster_.servers(); ++party) {
    cluster_.disk(party).faults = {};
    cluster_.disk(party).leave_space({});
    cluster_.disk(party).cut_after(0);
    cluster_.clock_of(party).set_rate(1);
  }
}

bool Troubles::all_servers_run() const {
  for (Party server = 1; server <= cluster_.servers(); ++server)
    if (!cluster_.runs(server)) return false;
  return true;
}

}  // namespace s3oram::test
