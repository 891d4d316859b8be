// The reports that all engines make in the same way.
#include "oramcore/client/volume_engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram {

std::uint64_t Healed::total() const {
  std::uint64_t all = 0;
  for (const auto& each : shares) all += each.second;
  return all;
}

Healed Healed::since(const Healed& before) const {
  Healed more{shares, lost - before.lost, unproven - before.unproven, hindrance};
  for (const auto& [server, count] : before.shares) more.shares[server] -= count;
  std::erase_if(more.shares, [](const auto& each) { return each.second == 0; });
  return more;
}

void log_findings(const Findings& findings) {
  constexpr std::size_t kMostToldOf = 20;
  for (std::size_t i = 0; i < std::min(findings.size(), kMostToldOf); ++i)
    spdlog::error("{}: {}", findings[i].where, findings[i].what);
  if (!findings.empty())
    spdlog::error("vault.db: {} damaged rows are left out; unmount and run s3oramfs fsck",
                  findings.size());
}

}  // namespace s3oram
