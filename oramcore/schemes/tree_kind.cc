// Connects volumes of s3oram and mirror to the tables and the engine of oramcore/client.
#include "oramcore/schemes/tree_kind.h"

#include "oramcore/client/engine.h"
#include "oramcore/client/rebuild.h"
#include "oramcore/client/state_check.h"
#include "oramcore/protocol/message_bounds.h"
#include "oramcore/schemes/registry.h"

namespace s3oram {
namespace {

class TreeReport final : public StateReport {
 public:
  TreeReport(StateCheck check, const VolumeParams& params)
      : check_(std::move(check)), params_(params) {
    findings = std::move(check_.findings);
    refused = check_.refused;
    if (refused) return;
    blocks = check_.state.positions.blocks();
    unreadable = check_.state.unreadable;
  }
  Status repair(Database& database) const override {
    return repair_state(database, params_, check_);
  }

 private:
  StateCheck check_;
  const VolumeParams params_;
};

class RebuiltTree final : public RebuiltState {
 public:
  RebuiltTree(Rebuilt rebuilt, unsigned evict_every)
      : state_(std::move(rebuilt.state)), evict_every_(evict_every) {
    backup = std::move(rebuilt.backup);
    blocks = state_.positions.mapped();
    damaged = rebuilt.damaged;
    former_was_last = rebuilt.former_was_last;
    left_out = state_.left_out;
  }
  Status store(const std::filesystem::path& file, Disk& disk) const override {
    return ClientState::create(file, state_, evict_every_, disk);
  }

 private:
  const ClientState::Loaded state_;
  const unsigned evict_every_;
};

/// Returns the state in vault.db; std::nullopt if vault.db does not exist or is damaged.
Result<std::optional<FormerState>> former_state(const ClientVolume& volume, Disk& disk) {
  std::error_code error;
  if (!std::filesystem::exists(volume.database(), error)) return std::nullopt;
  auto former = FormerState::load(volume.database(), volume.params, disk);
  if (former) return std::optional(std::move(*former));
  if (former.error().code != Errc::damaged_vault) return fail(std::move(former).error());
  return std::nullopt;
}

}  // namespace

std::size_t TreeKind::largest_message(const VolumeParams& params) const {
  return s3oram::largest_message(params);
}

Status TreeKind::create(const ClientVolume& volume, Disk& disk) const {
  Status made = ClientState::create(volume.database(), volume.params.first_height, disk);
  if (!made && made.error().code != Errc::exists) return made;
  return {};
}

Result<std::unique_ptr<VolumeEngine>> TreeKind::engine(const ClientVolume& volume,
                                                       const ClientEnvironment& environment,
                                                       Disk& disk) const {
  S3O_ASSIGN(auto state, ClientState::open(volume.database(), disk));
  state.set_owner({volume.id, volume.params, {}});
  return std::make_unique<Engine>(environment, volume.id, volume.params,
                                  client_scheme(volume.params, volume.sealing, environment.random),
                                  std::move(state));
}

std::vector<std::string> TreeKind::tables() const {
  return {"tree",       "positions",  "stash",    "sessions", "buckets", "rewritten", "intents",
          "unreadable", "maintained", "left_out", "owner",    "marks",   "repairs",   "refreshes"};
}

std::unique_ptr<StateReport> TreeKind::check(Database& database, const VolumeParams& params) const {
  // If a table cannot be made, that shows when it is read.
  static_cast<void>(ClientState::make_missing_tables(database));
  StateCheck check = read_state(database, params);
  check_further(check, params);
  check_marks(database, check);
  return std::make_unique<TreeReport>(std::move(check), params);
}

Task<Result<std::unique_ptr<RebuiltState>>> TreeKind::rebuild(const ClientVolume& volume,
                                                              ClientEnvironment environment,
                                                              Disk& disk,
                                                              RebuildOptions how) const {
  S3O_CO_ASSIGN(auto former, former_state(volume, disk));
  const VolumeParams& params = volume.params;
  Rebuild rebuild(environment, volume.id, params,
                  client_scheme(params, volume.sealing, environment.random), std::move(former));
  S3O_CO_ASSIGN(auto made, co_await rebuild.run(how.patience, std::move(how.progress)));
  co_return std::make_unique<RebuiltTree>(std::move(made), params.evict_every);
}

}  // namespace s3oram
