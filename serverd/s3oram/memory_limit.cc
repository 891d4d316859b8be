#include "serverd/s3oram/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace s3oram {
namespace {

namespace fs = std::filesystem;

/// A file that is not there, or says "max", is no limit.
std::uint64_t limit_in(const fs::path& file) {
  std::uint64_t limit = 0;
  return std::ifstream(file) >> limit ? limit : std::numeric_limits<std::uint64_t>::max();
}

/// The least of a group and those that it is in.
std::uint64_t least_limit(const fs::path& top, fs::path group, const char* file) {
  std::uint64_t least = limit_in(top / group / file);
  while (!group.empty()) {
    group = group.parent_path();
    least = std::min(least, limit_in(top / group / file));
  }
  return least;
}

}  // namespace

std::uint64_t usable_memory(const fs::path& root) {
  std::uint64_t usable = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const fs::path groups = root / "sys/fs/cgroup";
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // NUMBER:CONTROLLER,CONTROLLER:/GROUP
    const auto first = line.find(':'), second = line.find(":/", first);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 2);
    if (controllers == ",,")  // of version 2
      usable = std::min(usable, least_limit(groups, group, "memory.max"));
    else if (controllers.find(",memory,") != std::string::npos)
      usable = std::min(usable, least_limit(groups / "memory", group, "memory.limit_in_bytes"));
  }
  return usable;
}

std::size_t default_cache_bytes(std::uint64_t usable) {
  constexpr std::uint64_t kLeast = 256 << 20;
  return std::min(std::max(kLeast, usable / 16), usable / 8);
}

}  // namespace s3oram
