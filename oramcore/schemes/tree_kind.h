// Makes, opens, checks and rebuilds volumes of s3oram and mirror, which share one engine.
#pragma once

#include "oramcore/client/volume_kind.h"

namespace s3oram {

class TreeKind final : public VolumeKind {
 public:
  std::size_t largest_message(const VolumeParams& params) const override;
  std::uint64_t bytes_beside(const VolumeParams&) const override { return 0; }
  Status create(const ClientVolume& volume, Disk& disk) const override;
  Result<std::unique_ptr<VolumeEngine>> engine(const ClientVolume& volume,
                                               const ClientEnvironment& environment,
                                               Disk& disk) const override;
  std::vector<std::string> tables() const override;
  std::unique_ptr<StateReport> check(Database& database, const VolumeParams& params) const override;
  Task<Result<std::unique_ptr<RebuiltState>>> rebuild(const ClientVolume& volume,
                                                      ClientEnvironment environment, Disk& disk,
                                                      RebuildOptions how) const override;
  Status can_reenrol(const VolumeParams&) const override { return {}; }
};

}  // namespace s3oram
