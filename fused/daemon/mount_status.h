// Shows a mounted vault's state as JSON, for the control socket, and as metrics, for Prometheus.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fused/daemon/health.h"
#include "oramcore/base/metrics.h"

namespace s3oram {

struct MountIdentity {
  std::string mountpoint;
  std::int64_t since = 0;  // s since 1970
};

/// Returns the status. Members keep their names and meanings; new members may be added. `links` has
/// the traffic of each server.
nlohmann::json status_json(const MountIdentity& mount, const MountState& state,
                           const std::vector<std::vector<LinkTraffic>>& links);

/// Updates the gauges of `metrics`.
void gauge(const MountIdentity& mount, const MountState& state,
           const std::vector<std::vector<LinkTraffic>>& links, Metrics& metrics);

}  // namespace s3oram
