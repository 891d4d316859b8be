// The troubles of a run, drawn at random from a seed: power cuts at any disk operation and at named
// steps, killed processes, restarts, disks that fail, rot or are full, a bad network, clocks that
// run wrong.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"
#include "tests/sim/coverage.h"

namespace s3oram::test {

class Troubles {
 public:
  /// A trouble begins about every `mean` steps of the cluster, `most` times in all. Each run has
  /// its own choice of kinds.
  Troubles(Cluster& cluster, std::uint64_t seed, std::uint64_t mean, std::size_t most);

  /// Must be called before each step of the cluster. May kill, start and cut parties.
  void step();
  /// Cuts the power of a party, or of all, now.
  void force_cut();
  void let_nothing_rot() { std::erase(kinds_, Kind::rot); }
  /// From now on everything works.
  void end();
  /// Starts servers that died again, some time later.
  bool all_servers_run() const;

  /// Called when the client has died.
  std::function<void()> on_client_death;

  std::size_t begun() const { return begun_; }
  std::size_t cuts() const { return cuts_; }
  bool disk_failed() const { return disk_failed_; }
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
    clock
  };
  void begin(Kind kind);
  void died(Party party);
  void announced(Party party, std::string_view name, bool done);
  void rot();
  void cut_all(Party first, Party last);
  void start_later(Party server);
  void later(std::function<void()> then);
  Party any_party() { return static_cast<Party>(random_() % (cluster_.servers() + 1u)); }
  Party any_server() { return static_cast<Party>(1 + random_() % cluster_.servers()); }

  struct Armed {
    Party party;
    std::string name;
    bool done;
    std::uint64_t times;  // times until it happens
    bool everybody;
  };
  Cluster& cluster_;
  std::mt19937_64 random_;
  const std::uint64_t mean_;
  const std::size_t most_;
  std::vector<Kind> kinds_;
  const Party rotting_;  // the one server whose disk may rot; with two, blocks could be lost
  std::optional<Armed> armed_;
  std::uint64_t wait_ = 0;
  std::size_t begun_ = 0, cuts_ = 0;
  bool ended_ = false, killing_ = false, disk_failed_ = false;
};

}  // namespace s3oram::test
