// Gathers what is known about a mount.
#include "fused/daemon/watched.h"

namespace s3oram {

MountState state_of(const Watched& watched) {
  BlockDevice& device = watched.volume.device();
  const auto disk = watched.files.statfs();
  VolumeStatus volume = watched.volume.status();
  watched.height = volume.height;
  return {std::move(volume),
          watched.files.status(),
          device.room(),
          device.block_size(),
          disk ? disk->f_bavail * disk->f_frsize : 0,
          watched.migration.end()};
}

std::vector<Problem> look_at_health(const Watched& watched) {
  static_cast<void>(
      watched.volume.server_traffic());  // a silent server is noticed only if it is asked
  auto problems = find_problems(state_of(watched));
  std::erase_if(problems,
                [](const Problem& problem) { return problem.warning; });  // logged elsewhere
  return problems;
}

std::string metrics_page(const Watched& watched) {
  const auto links =
      watched.volume.server_traffic();  // a server that fails to answer is in the state
  gauge(watched.identity, state_of(watched), links, watched.metrics);
  return watched.metrics.text();
}

}  // namespace s3oram
