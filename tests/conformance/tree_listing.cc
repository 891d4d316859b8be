// Lists whole trees of files as text.
#include "tests/conformance/tree_listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <map>

#include "tests/conformance/observer.h"

namespace s3oram::conformance {
namespace {

std::string content_text(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return error_name(errno);
  std::string all(1 << 16, '\0');
  std::size_t size = 0;
  for (;;) {
    if (size == all.size()) all.resize(2 * size);
    const ssize_t got = ::pread(fd, all.data() + size, all.size() - size, static_cast<off_t>(size));
    if (got < 0) break;
    size += static_cast<std::size_t>(got);
    if (got > 0) continue;
    ::close(fd);
    return sum_of(std::string_view(all).substr(0, size));
  }
  const std::string error = error_name(errno);
  ::close(fd);
  return error;
}

std::string xattrs_text(const std::string& path) {
  char list[4096], value[4096];
  const ssize_t length = ::llistxattr(path.c_str(), list, sizeof list);
  if (length < 0) return error_name(errno);
  std::vector<std::string> all;
  for (ssize_t at = 0; at < length;) {
    const std::string name = list + at;
    at += static_cast<ssize_t>(name.size()) + 1;
    if (!name.starts_with("user.")) continue;
    const ssize_t got = ::lgetxattr(path.c_str(), name.c_str(), value, sizeof value);
    all.push_back(name + "=" +
                  (got < 0 ? error_name(errno) : sum_of({value, static_cast<std::size_t>(got)})));
  }
  std::sort(all.begin(), all.end());
  std::string text;
  for (const std::string& one : all) text += " " + one;
  return text;
}

void add(const std::string& path, std::map<ino_t, std::string>& first,
         std::vector<std::string>& lines) {
  DIR* directory = ::opendir(path.c_str());
  if (!directory) {
    lines.push_back(escaped(path) + " " + error_name(errno));
    return;
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string below = path + "/" + name;
    struct stat found {};
    std::string line = escaped(below) + " ";
    if (::lstat(below.c_str(), &found) != 0) {
      lines.push_back(line + error_name(errno));
      continue;
    }
    line += attributes_text(found) + xattrs_text(below);
    if (S_ISREG(found.st_mode)) line += " content " + content_text(below);
    if (S_ISLNK(found.st_mode)) {
      char target[4096];
      const ssize_t got = ::readlink(below.c_str(), target, sizeof target);
      line += " -> " + escaped({target, static_cast<std::size_t>(std::max<ssize_t>(got, 0))});
    }
    if (!S_ISDIR(found.st_mode)) {
      const auto [same, fresh] = first.emplace(found.st_ino, below);
      if (!fresh) line += " is " + escaped(same->second);
    }
    lines.push_back(line);
    if (S_ISDIR(found.st_mode)) add(below, first, lines);
  }
}

}  // namespace

std::string sum_of(std::string_view data) {
  std::uint64_t sum = 14695981039346656037u;
  for (const char byte : data) sum = (sum ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return std::to_string(data.size()) + ":" + std::to_string(sum);
}

std::string attributes_text(const struct stat& found) {
  char text[160];
  std::snprintf(text, sizeof text, "%s %o links %lu %u:%u", type_name(found.st_mode).c_str(),
                found.st_mode & 07777, static_cast<unsigned long>(found.st_nlink), found.st_uid,
                found.st_gid);
  return S_ISDIR(found.st_mode) ? text : text + (" size " + std::to_string(found.st_size));
}

std::string names_text(const char* path) {
  DIR* directory = ::opendir(path);
  if (!directory) return error_name(errno);
  std::vector<std::string> all;
  while (const dirent* entry = ::readdir(directory))
    all.push_back(escaped(entry->d_name) + " " + type_name(DTTOIF(entry->d_type)));
  ::closedir(directory);
  std::sort(all.begin(), all.end());
  std::string text;
  for (const std::string& one : all) text += one + ", ";
  return text;
}

std::vector<std::string> list_tree(int root) {
  std::map<ino_t, std::string> first;
  std::vector<std::string> lines;
  must(::fchdir(root) == 0, "fchdir");
  add(".", first, lines);
  return lines;
}

}  // namespace s3oram::conformance
