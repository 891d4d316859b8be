// Reads memory limits and use from /proc and /sys.
#include "oramcore/base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "oramcore/base/human.h"
#include "oramcore/base/limits.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = 1 << 20;

/// The names of files and fields in one version of control groups.
struct Names {
  std::vector<const char*> limits;
  const char* use;
  std::vector<const char*> files;      // fields of memory.stat: the kernel's file cache
  std::vector<const char*> unwritten;  // its dirty pages
};
const Names kFirst = {{"memory.limit_in_bytes"},
                      "memory.usage_in_bytes",
                      {"total_active_file", "total_inactive_file"},
                      {"total_dirty", "total_writeback"}};
const Names kSecond = {{"memory.max", "memory.high"},
                       "memory.current",
                       {"active_file", "inactive_file"},
                       {"file_dirty", "file_writeback"}};

struct Group {
  fs::path directory;
  const Names& names;
};

/// Reads a number; returns `otherwise` if the file does not exist or does not begin with a number.
std::uint64_t number_in(const fs::path& file, std::uint64_t otherwise) {
  std::uint64_t number = 0;
  return std::ifstream(file) >> number ? number : otherwise;
}

/// Reads lines that consist of a name, perhaps with a colon, and a number.
std::map<std::string, std::uint64_t> numbers_in(const fs::path& file) {
  std::map<std::string, std::uint64_t> numbers;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto end = line.find_first_of(": ");
    if (end == std::string::npos) continue;
    numbers[line.substr(0, end)] = std::strtoull(line.c_str() + end + 1, nullptr, 10);
  }
  return numbers;
}

/// Adds a group and its parents, as far as they are visible here.
void add_groups(const fs::path& top, fs::path group, const Names& names, std::vector<Group>& to) {
  for (;; group = group.parent_path()) {
    to.push_back({top / group, names});
    if (group.empty()) return;
  }
}

std::vector<Group> groups_of(const fs::path& root) {
  std::vector<Group> groups;
  const fs::path top = root / "sys/fs/cgroup";
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // NUMBER:CONTROLLER,CONTROLLER:/GROUP
    const auto first = line.find(':'), second = line.find(":/", first);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 2);
    if (controllers == ",,")
      add_groups(top, group, kSecond, groups);
    else if (controllers.find(",memory,") != std::string::npos)
      add_groups(top / "memory", group, kFirst, groups);
  }
  return groups;
}

std::uint64_t limit_of(const Group& group) {
  std::uint64_t limit = kNoLimit;
  for (const char* file : group.names.limits)
    limit = std::min(limit, number_in(group.directory / file, kNoLimit));
  // In version 1, also count the limits of parent groups that a container cannot see.
  if (&group.names != &kFirst) return limit;
  const auto stat = numbers_in(group.directory / "memory.stat");
  const auto least = stat.find("hierarchical_memory_limit");
  return least == stat.end() ? limit : std::min(limit, least->second);
}

std::uint64_t left_in(const Group& group, std::uint64_t limit) {
  const std::uint64_t use = number_in(group.directory / group.names.use, 0);
  auto stat = numbers_in(group.directory / "memory.stat");
  std::uint64_t files = 0, unwritten = 0;
  for (const char* name : group.names.files) files += stat[name];
  for (const char* name : group.names.unwritten) unwritten += stat[name];
  const std::uint64_t free = files - std::min(files, unwritten);
  const std::uint64_t taken = use - std::min(use, free);
  return limit - std::min(limit, taken);
}

std::uint64_t machine_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::uint64_t usable_memory(const fs::path& root) {
  std::uint64_t usable = std::min(machine_memory(), address_space_limit());
  for (const Group& group : groups_of(root)) usable = std::min(usable, limit_of(group));
  return usable;
}

Status check_memory(std::string_view what, std::uint64_t least) {
  const std::uint64_t usable = usable_memory();
  if (usable >= least) return {};
  return fail(Errc::unsupported,
              "{}: it may use {} of memory, but at least {} are needed; raise that limit "
              "(MemoryMax=, of the container, ulimit -v)",
              what, human_size(usable), human_size(least));
}

bool MemoryRoom::is_short() const { return left < std::min(limit / 8, 256 * kMiB); }
bool MemoryRoom::is_ample() const { return left > std::min(limit / 4, 1024 * kMiB); }

MemoryRoom memory_room(const fs::path& root) {
  const std::uint64_t machine = machine_memory();
  MemoryRoom least{machine, machine};
  auto kernel = numbers_in(root / "proc/meminfo");
  if (kernel.contains("MemAvailable")) least.left = std::min(machine, kernel["MemAvailable"] << 10);
  for (const Group& group : groups_of(root)) {
    const std::uint64_t limit = limit_of(group);
    if (limit >= machine) continue;
    const MemoryRoom room{limit, left_in(group, limit)};
    if (room.left < least.left) least = room;
  }
  return least;
}

std::size_t default_cache_bytes(std::uint64_t usable, unsigned servers) {
  return std::min(std::max(256 * kMiB, usable / 16), usable / 8 / servers);
}

std::size_t default_file_cache(std::uint64_t usable) {
  return std::clamp<std::uint64_t>(usable / 8, kLeastFileCache, 256 * kMiB);
}

}  // namespace s3oram
