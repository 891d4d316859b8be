// The troubles of a run, drawn at random from a seed: power cuts at any disk operation and at named
// steps, killed processes, restarts, disks that fail, rot or are full, a bad network, clocks that
// run wrong. A ring's client can also lose top.cache, and its server can answer wrongly.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/coverage.h"
#include "tests/sim/sim_world.h"

namespace s3oram::test {

class Troubles {
 public:
  /// A trouble begins about every `mean` steps of the world, `most` times in all. Each run has
  /// its own choice of kinds.
  Troubles(SimWorld& world, std::uint64_t seed, std::uint64_t mean, std::size_t most);

  /// Must be called before each step of the world. May kill, start and cut parties.
  void step();
  /// Cuts the power of a party, or of all, now.
  void force_cut();
  void let_nothing_rot() { std::erase(kinds_, Kind::rot); }
  void let_nobody_lie() { std::erase(kinds_, Kind::lie); }
  /// From now on everything works.
  void end();
  /// Starts servers that died again, some time later.
  bool all_servers_run() const;

  /// Called when the client has died.
  std::function<void()> on_client_death;

  std::size_t begun() const { return begun_; }
  std::size_t cuts() const { return cuts_; }
  bool disk_failed() const { return disk_failed_; }
  bool lied() const { return lied_; }
  Coverage coverage;

 private:
  enum class Kind {
    cut,
    cut_at_step,
    cut_all,
    kill,
    restart,
    sync,
    full,
    faulty,
    rot,
    network,
    partition,
    clock,
    cache,
    lie
  };
  void begin(Kind kind);
  void died(Party party);
  void announced(Party party, std::string_view name, bool done);
  void rot();
  void rot_a_row();
  void lie();
  void damage_cache();
  void cut_all(Party first, Party last);
  void start_later(Party server);
  void later(std::function<void()> then);
  Party any_party() { return static_cast<Party>(random_() % (world_.servers() + 1u)); }
  Party any_server() { return static_cast<Party>(1 + random_() % world_.servers()); }

  struct Armed {
    Party party;
    std::string name;
    bool done;
    std::uint64_t times;  // times until it happens
    bool everybody;
  };
  SimWorld& world_;
  std::mt19937_64 random_;
  const std::uint64_t mean_;
  const std::size_t most_;
  std::vector<Kind> kinds_;
  const Party rotting_;  // the one server whose disk may rot; with two, blocks could be lost
  std::optional<Armed> armed_;
  std::optional<Bytes> old_cache_;  // top.cache is damaged when the client has died
  std::uint64_t wait_ = 0;
  std::size_t begun_ = 0, cuts_ = 0;
  bool ended_ = false, killing_ = false, disk_failed_ = false, lied_ = false;
};

}  // namespace s3oram::test
