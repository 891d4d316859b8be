// One run of the driver, from one seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "oramcore/protocol/params.h"

namespace s3oram::sim {

/// Returns what went wrong, and what led to it; std::nullopt if all promises were kept.
std::optional<std::string> run_on_memory(std::uint64_t seed);

/// The volume of a run on the real engine and servers.
struct WorldKind {
  SchemeKind scheme = SchemeKind::s3oram;
  bool servers_die = false;  // now and then, and are started again
};
/// Like run_on_memory(). For each kind, a seed gives the same run.
std::optional<std::string> run_on_cluster(std::uint64_t seed, const WorldKind& kind);

}  // namespace s3oram::sim
