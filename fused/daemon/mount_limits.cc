// Checks the resource limits of a mount's process, and chooses how much it keeps in memory.
#include "fused/daemon/mount_limits.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/human.h"
#include "oramcore/base/limits.h"
#include "oramcore/base/memory_limit.h"

namespace s3oram {

std::size_t cache_of(const MountCommand& command) {
  return command.cache.value_or(default_file_cache(usable_memory()));
}

unsigned largest_request(std::uint64_t usable) {
  constexpr std::uint64_t kLittle = std::uint64_t{1} << 30;
  return usable <= kLittle ? 128u << 10 : 1u << 20;
}

Status check_limits_of(const MountCommand& command, const Vault& vault, const Background& waiting) {
  constexpr std::uint64_t kLargestLog = 128 << 20, kProgram = std::uint64_t{448} << 20;
  std::error_code none;
  const std::uint64_t database = std::filesystem::file_size(vault.database(), none);
  const Needs needs{.file_bytes = kLargestLog + (none ? 0 : database),
                    .open_files = 128,
                    .address_space = kProgram + cache_of(command)};
  const std::string refusal = vault.directory().string() + ": not mounted";
  S3O_TRY(check_limits(refusal, needs));
  S3O_TRY(check_memory(refusal, vault.config().local ? kLeastLocalMount : kLeastMount));
  const auto tell = [&waiting](const std::string& text) {
    spdlog::warn("{}", text);
    waiting.say("warning: " + text);
  };
  if (const auto most = file_size_limit(); most != kNoLimit)
    tell(fmt::format(
        "files that the mount writes may not exceed {} (ulimit -f, LimitFSIZE=): it takes "
        "only as much data as fits",
        human_size(most)));
  if (const auto seconds = processor_time_limit(); seconds != kNoLimit)
    tell(fmt::format(
        "after {} s of processor time, its limit, the mount ends in good order (ulimit -t, "
        "LimitCPU=)",
        seconds));
  return {};
}

void fit_into_memory(std::uint64_t usable, FileSystemOptions& options) {
  constexpr std::uint64_t kNode = 1 << 10;
  const std::uint64_t part = usable / 16;
  options.most_uncommitted = std::min<std::uint64_t>(options.most_uncommitted, part);
  options.most_nodes = std::min<std::uint64_t>(options.most_nodes, part / kNode);
}

}  // namespace s3oram
