// Makes, opens, checks and rebuilds volumes of ring.
#pragma once

#include "oramcore/client/volume_kind.h"

namespace s3oram::ring {

/// Returns where a vault keeps the top of its tree.
inline std::filesystem::path top_cache_of(const std::filesystem::path& vault) {
  return vault / "top.cache";
}

class RingKind final : public VolumeKind {
 public:
  std::size_t largest_message(const VolumeParams& params) const override;
  std::uint64_t bytes_beside(const VolumeParams& params) const override;
  Status create(const ClientVolume& volume, Disk& disk) const override;
  Result<std::unique_ptr<VolumeEngine>> engine(const ClientVolume& volume,
                                               const ClientEnvironment& environment,
                                               Disk& disk) const override;
  std::vector<std::string> tables() const override;
  std::unique_ptr<StateReport> check(Database& database, const VolumeParams& params) const override;
  Task<Result<std::unique_ptr<RebuiltState>>> rebuild(const ClientVolume& volume,
                                                      ClientEnvironment environment, Disk& disk,
                                                      RebuildOptions how) const override;
  Status can_reenrol(const VolumeParams& params) const override;
};

}  // namespace s3oram::ring
