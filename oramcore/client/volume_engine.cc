// The reports that all engines make in the same way.
#include "oramcore/client/volume_engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram {
namespace {

using Counts = std::map<Party, std::uint64_t>;

Counts counts_since(Counts counts, const Counts& before) {
  for (const auto& [server, count] : before) counts[server] -= count;
  std::erase_if(counts, [](const auto& each) { return each.second == 0; });
  return counts;
}

}  // namespace

std::uint64_t Healed::total() const {
  std::uint64_t all = 0;
  for (const auto& each : shares) all += each.second;
  return all;
}

Healed Healed::since(const Healed& before) const {
  return {.shares = counts_since(shares, before.shares),
          .lost = lost - before.lost,
          .lost_at = counts_since(lost_at, before.lost_at),
          .unproven = unproven - before.unproven,
          .hindrance = hindrance};
}

std::string failure_of(const std::optional<Error>& end) {
  return end && end->code != Errc::shutting_down ? end->message : std::string();
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
