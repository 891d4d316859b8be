// A ring volume's tables in vault.db, and top.cache beside it.
#include "oramcore/schemes/ring/client/ring_volume.h"

#include "oramcore/schemes/ring/client/ring_check.h"
#include "oramcore/schemes/ring/client/ring_rebuild.h"

namespace s3oram::ring {
namespace {

class RingReport final : public StateReport {
 public:
  explicit RingReport(RingCheck check) : check_(std::move(check)) {
    findings = std::move(check_.findings);
    refused = check_.refused;
    if (refused) return;
    blocks = check_.state.places.blocks();
    unreadable = check_.state.unreadable;
  }
  Status repair(Database& database) const override { return repair_ring(database, check_); }

 private:
  RingCheck check_;
};

class RebuiltRing final : public RebuiltState {
 public:
  RebuiltRing(RingRebuild::Rebuilt rebuilt, unsigned first_height)
      : state_(std::move(rebuilt.state)), first_height_(first_height) {
    backup = std::move(rebuilt.backup);
    blocks = state_.places.mapped();
    damaged = rebuilt.damaged;
    suspect = rebuilt.suspect.size();
    former_was_last = rebuilt.former_was_last;
  }
  Status store(const std::filesystem::path& file, Disk& disk) const override {
    S3O_TRY(RingState::create(file, first_height_, disk));
    S3O_ASSIGN(auto state, RingState::open(file, disk));
    return state.put_all(state_);
  }

 private:
  const RingState::Loaded state_;
  const unsigned first_height_;
};

/// Returns the state in vault.db; std::nullopt if vault.db does not exist or is damaged.
Result<std::optional<FormerRing>> former_ring(const ClientVolume& volume, Disk& disk) {
  std::error_code error;
  if (!std::filesystem::exists(volume.database(), error)) return std::nullopt;
  const auto unless_damaged = [](Error why) -> Result<std::optional<FormerRing>> {
    if (why.code == Errc::damaged_vault) return std::nullopt;
    return fail(std::move(why));
  };
  auto state = RingState::open(volume.database(), disk);
  if (!state) return unless_damaged(std::move(state).error());
  auto loaded = state->load(volume.params);
  if (!loaded) return unless_damaged(std::move(loaded).error());
  return std::optional(FormerRing{std::move(*state), std::move(*loaded)});
}

}  // namespace

std::size_t RingKind::largest_message(const VolumeParams& params) const {
  return ring::largest_message(Params(params));
}

std::uint64_t RingKind::bytes_beside(const VolumeParams& params) const {
  return cache_bytes(params);
}

Status RingKind::create(const ClientVolume& volume, Disk& disk) const {
  Status made = RingState::create(volume.database(), volume.params.first_height, disk);
  if (!made && made.error().code != Errc::exists) return made;
  S3O_ASSIGN(const auto cache, disk.open(top_cache_of(volume.directory)));
  S3O_TRY(cache->reserve(cache_bytes(volume.params)));
  return cache->sync();
}

Result<std::unique_ptr<VolumeEngine>> RingKind::engine(const ClientVolume& volume,
                                                       const ClientEnvironment& environment,
                                                       Disk& disk) const {
  S3O_ASSIGN(auto state, RingState::open(volume.database(), disk));
  state.set_owner({volume.id, volume.params, {}});
  S3O_ASSIGN(auto cache, disk.open(top_cache_of(volume.directory)));
  return std::make_unique<RingEngine>(environment, volume.id, volume.params, volume.sealing,
                                      std::move(state), std::move(cache));
}

std::vector<std::string> RingKind::tables() const {
  return {"ring_tree",   "ring_blocks", "ring_buckets", "ring_accesses",
          "ring_logged", "unreadable",  "sessions",     "owner"};
}

std::unique_ptr<StateReport> RingKind::check(Database& database, const VolumeParams& params) const {
  return std::make_unique<RingReport>(read_ring(database, params));
}

Task<Result<std::unique_ptr<RebuiltState>>> RingKind::rebuild(const ClientVolume& volume,
                                                              ClientEnvironment environment,
                                                              Disk& disk,
                                                              RebuildOptions how) const {
  S3O_CO_ASSIGN(auto former, former_ring(volume, disk));
  S3O_CO_ASSIGN(const auto cache, disk.open(top_cache_of(volume.directory)));
  RingRebuild rebuild(
      environment, volume.id, volume.params, volume.sealing, *cache, std::move(former),
      how.rewrite_first ? RingRebuild::Asked::everything : RingRebuild::Asked::as_server_says);
  S3O_CO_ASSIGN(auto found,
                co_await rebuild.run(how.patience, [&](std::uint64_t looked_at, std::uint64_t of) {
                  if (how.progress) how.progress(fmt::format("{} of {} buckets", looked_at, of));
                }));
  co_return std::make_unique<RebuiltRing>(std::move(found), volume.params.first_height);
}

Status RingKind::can_reenrol(const VolumeParams&) const {
  return fail(Errc::unsupported,
              "there is only one copy of a ring's data, on its only server, so no other server can "
              "restore it: bring its store back from its RAID, or from a backup that is as new as "
              "the vault; s3oramfs scrub rebuilds single rows that its disk has damaged");
}

}  // namespace s3oram::ring
