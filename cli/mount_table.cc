#include "cli/mount_table.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace s3oram {
namespace {

namespace fs = std::filesystem;

// The kernel writes blanks and backslashes as three octal digits.
std::string unescape(const std::string& text) {
  const auto octal = [&](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '7';
  };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      plain.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                        (text[i + 3] - '0')));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// All absolute paths that `name` may stand for. The mount point itself is not looked at where it
// can be helped: its daemon may be dead, or slow.
std::vector<fs::path> meanings(const fs::path& name) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::path path = fs::absolute(name, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  paths.push_back(path);
  const fs::path parent = fs::canonical(path.parent_path(), error);
  if (!error) paths.push_back(parent / path.filename());
  const fs::path target = fs::canonical(path, error);
  if (!error) paths.push_back(target);
  return paths;
}

}  // namespace

std::vector<Mount> parse_mounts(const std::string& mountinfo) {
  std::vector<Mount> mounts;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    // id parent major:minor root POINT options [tag...] - TYPE SOURCE options
    std::istringstream words(line);
    const std::vector<std::string> word{std::istream_iterator<std::string>(words), {}};
    const auto dash = std::find(word.begin() + std::min<std::size_t>(6, word.size()), word.end(),
                                std::string("-"));
    if (word.end() - dash < 3 || dash[1] != "fuse.s3oramfs") continue;
    mounts.push_back({unescape(word[4]), unescape(dash[2])});
  }
  return mounts;
}

Result<Mount> find_mount(const fs::path& name) {
  std::ifstream file("/proc/self/mountinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto mounts = parse_mounts(text);
  const auto paths = meanings(name);
  for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount)
    for (const fs::path& path : paths)
      if (mount->point == path || mount->vault == path) return *mount;
  return fail(Errc::not_mounted, "{}: no vault is mounted there, and no such vault is mounted",
              name.string());
}

}  // namespace s3oram
