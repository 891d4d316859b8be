// A mount as the control socket, the metrics and the health watch see it.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "fused/daemon/health.h"
#include "fused/daemon/migration_watch.h"
#include "fused/daemon/mount_status.h"
#include "fused/files/file_system.h"
#include "oramcore/base/metrics.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// The parts of a mount on which the control socket and the metrics report.
struct Watched {
  MountIdentity identity;
  Volume& volume;
  FileSystem& files;
  const MigrationWatch& migration;
  Metrics& metrics;
  std::atomic<unsigned>& height;  // height of the tree at the last check
};

MountState state_of(const Watched& watched);
/// Returns the problems without the warnings, which are logged elsewhere.
std::vector<Problem> look_at_health(const Watched& watched);
/// Returns the page of metrics.
std::string metrics_page(const Watched& watched);

}  // namespace s3oram
