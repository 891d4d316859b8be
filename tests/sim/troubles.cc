// Draws troubles at random, and makes them happen to a cluster's parties.
#include "tests/sim/troubles.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "oramcore/net/rpc.h"
#include "oramcore/protocol/messages.h"
#include "serverd/store/bucket_store.h"

namespace s3oram::test {
namespace {

const std::string kSlots = "slots", kTopCache = "top.cache";
constexpr std::array<const char*, 6> kClientSteps = {"session", "forget-sessions", "intent",
                                                     "commit",  "decide",          "tables"};
constexpr std::array<const char*, 7> kServerSteps = {"session", "attempt", "slots", "prepared",
                                                     "flip",    "discard", "slots"};

}  // namespace

Troubles::Troubles(SimWorld& world, std::uint64_t seed, std::uint64_t mean, std::size_t most)
    : world_(world), random_(seed), mean_(mean), most_(most), rotting_(any_server()) {
  for (const Kind kind : {Kind::cut_all, Kind::kill, Kind::restart, Kind::sync, Kind::full,
                          Kind::faulty, Kind::rot, Kind::network, Kind::partition, Kind::clock})
    if (random_() % 3 != 0) kinds_.push_back(kind);
  if (world_.params().is_ring())
    for (const Kind kind : {Kind::cache, Kind::lie})
      if (random_() % 3 != 0) kinds_.push_back(kind);
  kinds_.insert(kinds_.end(), {Kind::cut, Kind::cut_at_step, Kind::cut_at_step});
  wait_ = random_() % (2 * mean_);
  world_.on_death = [this](Party party) { died(party); };
  world_.on_step = [this](Party party, std::string_view name, bool done) {
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
    cut_all(kClient, world_.servers());
  else
    world_.cut(any_party());
}

void Troubles::later(std::function<void()> then) {
  const Duration most = random_() % 2 ? std::chrono::seconds(1) : std::chrono::seconds(60);
  world_.clock.call_after(Duration(random_() % static_cast<std::uint64_t>(most.count())),
                          std::move(then));
}

void Troubles::begin(Kind kind) {
  constexpr const char* kNames[] = {"cut",       "cut at a step", "cut all", "kill", "restart",
                                    "sync",      "full",          "faulty",  "rot",  "network",
                                    "partition", "clock",         "cache",   "lie"};
  const Party party = any_party();
  spdlog::debug("trouble: {} (party {})", kNames[static_cast<int>(kind)], party);
  SimDisk& disk = world_.disk(party);
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
      return cut_all(random_() % 2 ? kClient : Party{1}, world_.servers());
    case Kind::kill:
      killing_ = true;
      if (world_.runs(party)) world_.kill(party);
      killing_ = false;
      return;
    case Kind::restart: {
      const Party server = any_server();
      if (!world_.runs(server)) return;
      static_cast<void>(world_.try_stop_server(server));  // may fail because of a bad disk
      // The server may have lost its power meanwhile.
      if (!world_.runs(server)) start_later(server);
      return;
    }
    case Kind::sync:
      disk_failed_ = true;
      return disk.fail_next_sync();
    case Kind::full:
      disk_failed_ = true;
      disk.leave_space(random_() % 2 ? 0 : random_() % 65536);
      return later([this, party] { world_.disk(party).leave_space({}); });
    case Kind::faulty:
      disk_failed_ = true;
      disk.faults = {.read = 0.01, .write = 0.02, .sync = 0.02};
      return later([this, party] { world_.disk(party).faults = {}; });
    case Kind::rot:
      return world_.params().is_ring() ? rot_a_row() : rot();
    case Kind::network: {
      const auto rate = [this] { return static_cast<double>(random_() % 100) / 500; };
      world_.network.faults.lost = rate();
      world_.network.faults.doubled = rate();
      world_.network.faults.late = rate();
      return later([this] { world_.network.faults = {}; });
    }
    case Kind::partition:
      world_.network.filter = [party](Party from, Party to, const Bytes&) {
        return from != party && to != party;
      };
      return later([this] { world_.network.filter = {}; });
    case Kind::clock:
      if (random_() % 2)
        world_.clock_of(party).jump(std::chrono::seconds(1 + random_() % 100));
      else
        world_.clock_of(party).set_rate(0.25 + static_cast<double>(random_() % 16) / 4);
      return;
    case Kind::cache:
      old_cache_ = world_.disk(kClient).content(kTopCache);
      return;
    case Kind::lie:
      return lie();
  }
}

void Troubles::rot() {
  SimDisk& disk = world_.disk(rotting_);
  const std::string slots = kSlots;
  const std::size_t size = disk.content(slots).size();
  for (std::uint64_t left = 1 + random_() % 4; left > 0 && size > 0; --left)
    disk.rot(slots, random_() % size, static_cast<std::uint8_t>(1 << random_() % 8));
}

/// A bad sector in a row of some bucket, once, because there is only one copy: a second one in the
/// same bucket may cost it.
void Troubles::rot_a_row() {
  let_nothing_rot();
  SimDisk& disk = world_.disk(rotting_);
  const VolumeParams& params = world_.params();
  const std::uint64_t row_size = params.stored_slot() + BucketVersion::kTrailer;
  const std::uint64_t rows = disk.content(kSlots).size() / row_size;
  if (rows <= params.log_slots()) return;
  const std::uint64_t row = params.log_slots() + random_() % (rows - params.log_slots());
  const std::uint64_t from = row * row_size + random_() % row_size;
  if (random_() % 2)
    disk.rot(kSlots, from, static_cast<std::uint8_t>(1 << random_() % 8));
  else
    disk.make_unreadable(kSlots, from, from + 1);
}

/// The server alters some of its answers for a while. (It says nothing wrong about what is durable:
/// what a server only claims to have stored is lost.)
void Troubles::lie() {
  lied_ = true;
  const auto half = random_() % 2;
  world_.network.filter = [this, half](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2] | message[3] << 8);
    const bool is_content = type == MessageType::retrieve || type == MessageType::fetch_rows ||
                            type == MessageType::read_log || type == MessageType::survey;
    if (from == kClient || !is_content || message.size() <= Rpc::kHeaderSize || message[4] != 0 ||
        (half && random_() % 2))
      return true;
    Bytes altered = message;
    const std::size_t body = message.size() - Rpc::kHeaderSize;
    altered[Rpc::kHeaderSize + random_() % body] ^= static_cast<std::uint8_t>(1 << random_() % 8);
    world_.network.deliver(from, to, std::move(altered));
    return false;
  };
  later([this] { world_.network.filter = {}; });
}

/// The file is lost, torn, partly unreadable, or an old copy, when the client starts again.
void Troubles::damage_cache() {
  const Bytes old = *std::exchange(old_cache_, std::nullopt);
  SimDisk& disk = world_.disk(kClient);
  const std::size_t size = disk.content(kTopCache).size();
  const auto how = random_() % 4;
  if (size == 0) return;
  spdlog::debug("top.cache is {}", how == 0   ? "lost"
                                   : how == 1 ? "an old copy"
                                   : how == 2 ? "torn"
                                              : "partly unreadable");
  if (how == 0) {
    disk.remove(kTopCache);
  } else if (how == 1) {
    DiskImage image = disk.image();
    image.files[kTopCache].bytes = old;
    disk.put(image);
  } else {
    for (std::uint64_t left = 1 + random_() % 8; left > 0; --left) {
      const std::uint64_t from = random_() % size;
      if (how == 2)
        disk.rot(kTopCache, from, static_cast<std::uint8_t>(1 << random_() % 8));
      else
        disk.make_unreadable(kTopCache, from, std::min<std::uint64_t>(size, from + kDiskSector));
    }
  }
}

void Troubles::cut_all(Party first, Party last) {
  for (Party party = first; party <= last; ++party) world_.cut(party);
}

void Troubles::announced(Party party, std::string_view name, bool done) {
  if (done) coverage.persisted(party, name);
  if (!armed_ || ended_ || armed_->party != party || armed_->name != name || armed_->done != done ||
      armed_->times-- > 0)
    return;
  const bool everybody = armed_->everybody;
  armed_.reset();
  world_.cut(party);
  if (everybody) cut_all(kClient, world_.servers());
}

void Troubles::died(Party party) {
  if (!killing_) {
    ++cuts_;
    coverage.cut();
  }
  if (party != kClient) return start_later(party);
  if (old_cache_) damage_cache();
  on_client_death();
}

void Troubles::start_later(Party server) {
  later([this, server] {
    if (world_.runs(server)) return;
    // A bad disk may make this fail. After a power cut the server is started again as after any
    // death.
    const auto cuts = cuts_;
    if (!world_.try_start_server(server) && cuts == cuts_) start_later(server);
  });
}

void Troubles::end() {
  ended_ = true;
  world_.network.faults = {};
  world_.network.filter = {};
  for (Party party = kClient; party <= world_.servers(); ++party) {
    world_.disk(party).faults = {};
    world_.disk(party).leave_space({});
    world_.disk(party).cut_after(0);
    world_.clock_of(party).set_rate(1);
  }
}

bool Troubles::all_servers_run() const {
  for (Party server = 1; server <= world_.servers(); ++server)
    if (!world_.runs(server)) return false;
  return true;
}

}  // namespace s3oram::test
