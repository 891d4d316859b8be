// One run of the driver, from one seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace s3oram::sim {

/// Returns what went wrong, and what led to it; std::nullopt if all promises were kept.
std::optional<std::string> run_on_memory(std::uint64_t seed);
/// Does the same on the real engine and servers.
std::optional<std::string> run_on_cluster(std::uint64_t seed);

}  // namespace s3oram::sim
