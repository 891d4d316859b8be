// A client and the l servers of an s3oram volume or a mirror.
#pragma once

#include <filesystem>

#include "oramcore/client/engine.h"
#include "oramcore/client/rebuild.h"
#include "oramcore/client/reenrolment.h"
#include "tests/sim/sim_world.h"

namespace s3oram::test {

class Cluster final : public SimWorld {
 public:
  /// Makes the volume. Afterwards all servers run, and the client does not.
  Cluster(const VolumeParams& params, std::uint64_t seed);
  ~Cluster() override { end_for_good(); }

  void begin_open_client(std::function<void(Status)> done) override;
  /// Rebuilds the client's database from the servers (Volume::rebuild). With `beside` it does
  /// everything except store the result, and leaves the existing database in place. Like
  /// begin_open_client().
  enum class Rebuilding { in_place, beside };
  void begin_rebuild_client(std::function<void(Result<Rebuilt>)> done,
                            Rebuilding how = Rebuilding::in_place);
  Result<Rebuilt> rebuild_client(Rebuilding how = Rebuilding::in_place);
  void begin_restore_client(std::function<void(Status)> done) override;
  void begin_reenrol(std::set<Party> lost, std::function<void(Status)> done) override;
  Status reenrol(std::set<Party> lost);

  void kill_server(Party server) { kill(server); }
  void kill_client() { kill(kClient); }

  Engine& engine() { return static_cast<Engine&>(volume_engine()); }
  /// If set, the client draws from this and not from the cluster's seed.
  Random* client_random = nullptr;

  /// Delivers a message that nobody has sent.
  void inject(Party from, Party to, const Bytes& message) { network.deliver(from, to, message); }

  /// The names of the files on the parties' disks.
  std::filesystem::path database() const { return "vault.db"; }
  std::filesystem::path slots() const { return "slots"; }

 private:
  class Rebuilder;
  class Reenroller;
  Result<std::unique_ptr<ShareServer>> make_server(Party server,
                                                   const ServerEnvironment& environment) override;
  Random& random_of_client() { return client_random ? *client_random : random(); }
  std::optional<ClientState> open_state(Life& life, const std::function<void(Status)>& done);
};

/// ASSERT_OK(result): asserts that there is no error, or prints it.
#define ASSERT_OK(expr)                                    \
  do {                                                     \
    const auto& s3o_result = (expr);                       \
    ASSERT_TRUE(s3o_result) << s3o_result.error().message; \
  } while (false)

}  // namespace s3oram::test
