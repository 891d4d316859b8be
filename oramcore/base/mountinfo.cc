// Parses /proc/self/mountinfo without accessing a daemon, which may hang.
#include "oramcore/base/mountinfo.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "oramcore/base/descriptor.h"

namespace s3oram {
namespace {

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

unsigned number(std::string_view digits) {
  unsigned value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

/// Returns the number after `name` in a FUSE mount's options; 0 if there is none.
unsigned option_number(const std::string& options, std::string_view name) {
  std::istringstream words(options);
  for (std::string word; std::getline(words, word, ',');)
    if (word.starts_with(name)) return number(std::string_view(word).substr(name.size()));
  return 0;
}

/// Parses mounts of all kinds: a vault's path is the mount's source. Skips malformed lines.
std::vector<std::pair<std::string, VaultMount>> parse_mounts(const std::string& mountinfo) {
  std::vector<std::pair<std::string, VaultMount>> mounts;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    // id parent major:minor root POINT options [tag...] - TYPE SOURCE options
    std::vector<std::string> word;
    std::istringstream words(line);
    for (std::string each; std::getline(words, each, ' ');) word.push_back(each);
    const auto dash = std::find(word.begin() + std::min<std::ptrdiff_t>(6, std::ssize(word)),
                                word.end(), std::string("-"));
    if (word.end() - dash < 3) continue;
    VaultMount mount{unescape(word[4]), unescape(dash[2])};
    const std::string& device = word[2];
    mount.connection = number(std::string_view(device).substr(device.find(':') + 1));
    mount.id = number(word[0]);
    if (word.end() - dash > 3) {
      mount.user = option_number(dash[3], "user_id=");
      mount.group = option_number(dash[3], "group_id=");
    }
    mounts.emplace_back(unescape(dash[1]), std::move(mount));
  }
  return mounts;
}

std::string own_mountinfo() {
  std::ifstream file("/proc/self/mountinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<VaultMount> parse_vault_mounts(const std::string& mountinfo) {
  std::vector<VaultMount> mounts;
  for (auto& [type, mount] : parse_mounts(mountinfo))
    if (type == kVaultMountType) mounts.push_back(std::move(mount));
  std::ranges::reverse(mounts);
  return mounts;
}

std::vector<VaultMount> vault_mounts() { return parse_vault_mounts(own_mountinfo()); }

std::filesystem::path as_mount_point(const std::filesystem::path& name) {
  std::error_code error;
  auto path = std::filesystem::absolute(name, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const auto parent = std::filesystem::canonical(path.parent_path(), error);
  return error ? path : parent / path.filename();
}

bool is_inside(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  const auto [end, ignored] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

bool is_dead(const std::filesystem::path& point) {
  struct statfs asked {
  };  // statfs always asks the daemon; attributes may come from the kernel's cache
  return ::statfs(point.c_str(), &asked) != 0 && errno == ENOTCONN;
}

unsigned mount_id(int file) {
  std::ifstream info(fmt::format("/proc/self/fdinfo/{}", file));
  for (std::string word; info >> word;)
    if (word == "mnt_id:" && info >> word) return number(word);
  return 0;
}

bool is_covered(const VaultMount& mount) {
  const Descriptor seen(::open(mount.point.c_str(), O_PATH | O_CLOEXEC));  // accesses no daemon
  const unsigned id = mount_id(seen.get());
  return id != 0 && id != mount.id;
}

std::optional<std::filesystem::path> mount_inside(const std::filesystem::path& point) {
  for (const auto& [type, mount] : parse_mounts(own_mountinfo()))
    if (mount.point != point && is_inside(mount.point, point)) return mount.point;
  return std::nullopt;
}

std::optional<VaultMount> vault_mounted_at(const std::filesystem::path& point) {
  const auto mounts = vault_mounts();
  const auto found = std::ranges::find(mounts, point, &VaultMount::point);
  return found == mounts.end() ? std::nullopt : std::optional(*found);
}

}  // namespace s3oram
