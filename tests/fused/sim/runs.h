// One run of the driver, from one seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace s3oram::sim {

/// What went wrong, and how it came to it; nothing if all promises were kept.
std::optional<std::string> run_on_memory(std::uint64_t seed);
/// On the real engine and servers.
std::optional<std::string> run_on_cluster(std::uint64_t seed);

}  // namespace s3oram::sim
