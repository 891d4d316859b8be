// Finds the processes that use a mount, from the links that /proc shows for each process.
#include "oramcore/base/mount_users.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <system_error>
#include <vector>

#include "oramcore/base/mountinfo.h"

namespace s3oram {
namespace {

namespace stdfs = std::filesystem;

constexpr std::size_t kMostNamed = 5;

bool leads_into(const stdfs::path& link, const stdfs::path& point) {
  std::error_code error;
  const stdfs::path target = stdfs::read_symlink(link, error);
  return !error && is_inside(target, point);
}

bool uses(const stdfs::path& process, const stdfs::path& point) {
  for (const char* link : {"cwd", "root", "exe"})
    if (leads_into(process / link, point)) return true;
  std::error_code error;
  for (const char* folder : {"fd", "map_files"})
    for (const auto& link : stdfs::directory_iterator(process / folder, error))
      if (leads_into(link.path(), point)) return true;
  return false;
}

bool is_process(const std::string& name) {
  return std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::string users_of_mount(const stdfs::path& point) {
  std::vector<std::string> users;
  std::error_code error;
  for (const auto& process : stdfs::directory_iterator("/proc", error)) {
    const std::string number = process.path().filename();
    if (!is_process(number) || !uses(process.path(), point)) continue;
    if (users.size() == kMostNamed) {
      users.emplace_back("and others");
      break;
    }
    std::string name;
    std::getline(std::ifstream(process.path() / "comm"), name);
    users.push_back(fmt::format("{} (process {})", name, number));
  }
  return fmt::format("{}", fmt::join(users, ", "));
}

}  // namespace s3oram
