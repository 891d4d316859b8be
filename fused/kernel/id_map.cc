// Reads the id maps of a user namespace from /proc, and applies them.
#include "fused/kernel/id_map.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace s3oram {
namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

IdMap::IdMap(std::string_view text) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    Range range;
    if (std::istringstream(line) >> range.inside >> range.outside >> range.count)
      ranges_.push_back(range);
  }
  const bool all = ranges_.size() == 1 && ranges_[0].inside == 0 && ranges_[0].outside == 0 &&
                   ranges_[0].count == kNoId;
  if (all) ranges_.clear();
}

std::uint32_t IdMap::inside(std::uint32_t outside) const {
  if (is_identity()) return outside;
  for (const Range& range : ranges_)
    if (outside >= range.outside && outside - range.outside < range.count)
      return range.inside + (outside - range.outside);
  return kNoId;
}

std::uint32_t IdMap::outside(std::uint32_t inside) const {
  if (is_identity()) return inside;
  for (const Range& range : ranges_)
    if (inside >= range.inside && inside - range.inside < range.count)
      return range.outside + (inside - range.inside);
  return kNoId;
}

IdMaps IdMaps::of_this_process() {
  return {IdMap(text_of("/proc/self/uid_map")), IdMap(text_of("/proc/self/gid_map"))};
}

struct stat IdMaps::inside(struct stat attributes) const {
  attributes.st_uid = users.inside(attributes.st_uid);
  attributes.st_gid = groups.inside(attributes.st_gid);
  return attributes;
}

}  // namespace s3oram
