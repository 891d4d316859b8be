// Runs calls for a case, and writes their results as lines.
#include "tests/conformance/observer.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace s3oram::conformance {
namespace {

std::string read_all(int fd) {
  std::string all;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::pread(fd, buffer, sizeof buffer, static_cast<off_t>(all.size()));
    if (got < 0) return all + " then " + error_name(errno);
    if (got == 0) return all;
    all.append(buffer, static_cast<std::size_t>(got));
  }
}

/// Returns short contents as they are, and longer ones as their length and a sum.
std::string shown(const std::string& content) {
  if (content.size() <= 60) return "\"" + escaped(content) + "\"";
  std::uint64_t sum = 14695981039346656037u;
  for (const char byte : content) sum = (sum ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return std::to_string(content.size()) + " bytes, sum " + std::to_string(sum);
}

int compare(const timespec& a, const timespec& b) {
  if (a.tv_sec != b.tv_sec) return a.tv_sec < b.tv_sec ? -1 : 1;
  return a.tv_nsec == b.tv_nsec ? 0 : a.tv_nsec < b.tv_nsec ? -1 : 1;
}

const char* movement(const timespec& before, const timespec& after) {
  const int order = compare(before, after);
  return order == 0 ? "same" : order < 0 ? "moved" : "back";
}

}  // namespace

std::string error_name(int error) {
  const char* name = ::strerrorname_np(error);
  return name ? name : "errno " + std::to_string(error);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    char hex[5];
    if (c >= ' ' && c <= '~' && c != '\\') {
      out.push_back(c);
    } else {
      std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(c));
      out += hex;
    }
  }
  return out;
}

std::string type_name(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "file";
    case S_IFDIR:
      return "directory";
    case S_IFLNK:
      return "symlink";
    case S_IFIFO:
      return "fifo";
    case S_IFSOCK:
      return "socket";
    case S_IFCHR:
      return "character device";
    case S_IFBLK:
      return "block device";
    default:
      return "unknown";
  }
}

void Observer::note(std::string_view what, std::string_view text) {
  const std::string line = std::string(what) + ": " + std::string(text) + "\n";
  must(::write(out_, line.data(), line.size()) == static_cast<ssize_t>(line.size()), "note");
}

long Observer::call(std::string_view what, long result) {
  note(what, result < 0 ? error_name(errno) : std::to_string(result));
  return result;
}

int Observer::file(std::string_view what, int fd) {
  note(what, fd < 0 ? error_name(errno) : "ok");
  return fd;
}

void Observer::attributes(std::string_view what, const char* path) {
  struct stat found {};
  if (::lstat(path, &found) != 0) return note(what, error_name(errno));
  attributes(what, found);
}

void Observer::attributes(std::string_view what, const struct stat& found) {
  char text[160];
  std::snprintf(text, sizeof text, "%s mode %o links %lu owner %u:%u",
                type_name(found.st_mode).c_str(), found.st_mode & 07777,
                static_cast<unsigned long>(found.st_nlink), found.st_uid, found.st_gid);
  note(what, S_ISDIR(found.st_mode) ? std::string(text)
                                    : text + (" size " + std::to_string(found.st_size)));
}

void Observer::content(std::string_view what, const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return note(what, error_name(errno));
  content(what, fd);
  ::close(fd);
}

void Observer::content(std::string_view what, int fd) { note(what, shown(read_all(fd))); }

void Observer::names(std::string_view what, const char* path) {
  DIR* directory = ::opendir(path);
  if (!directory) return note(what, error_name(errno));
  std::vector<std::string> all;
  errno = 0;
  while (const dirent* entry = ::readdir(directory))
    all.push_back(escaped(entry->d_name) + " " + type_name(DTTOIF(entry->d_type)));
  if (errno != 0) all.push_back(error_name(errno));
  ::closedir(directory);
  std::sort(all.begin(), all.end());
  std::string joined;
  for (const std::string& name : all) joined += (joined.empty() ? "" : ", ") + name;
  note(what, joined);
}

void Observer::times(std::string_view what, const char* path,
                     const std::function<void()>& operation) {
  const timespec past[2] = {{1'000'000'000, 1}, {1'000'000'000, 2}};
  must(::utimensat(AT_FDCWD, path, past, AT_SYMLINK_NOFOLLOW) == 0, "setting times back");
  struct stat before {
  }, after{};
  must(::lstat(path, &before) == 0, "stat");
  wait_for_tick();
  operation();
  must(::lstat(path, &after) == 0, "stat");
  note(what, std::string("atime ") + movement(before.st_atim, after.st_atim) + " mtime " +
                 movement(before.st_mtim, after.st_mtim) + " ctime " +
                 movement(before.st_ctim, after.st_ctim));
}

void Observer::in_process(const std::function<void()>& work) {
  const pid_t child = ::fork();
  must(child >= 0, "fork");
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  must(::waitpid(child, &status, 0) == child, "waitpid");
  if (status != 0) note("process", "ended with status " + std::to_string(status));
}

void Observer::as_user(uid_t user, const std::vector<gid_t>& groups,
                       const std::function<void()>& work) {
  in_process([&] {
    must(::setgroups(groups.size(), groups.data()) == 0, "setgroups");
    must(::setgid(groups.front()) == 0, "setgid");
    must(::setuid(user) == 0, "setuid");
    work();
  });
}

void make_file(const char* path, std::string_view content, mode_t mode) {
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  must(fd >= 0, path);
  must(::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()), path);
  must(::fchmod(fd, mode) == 0, path);
  must(::close(fd) == 0, path);
}

void make_directory(const char* path, mode_t mode) {
  must(::mkdir(path, mode) == 0 && ::chmod(path, mode) == 0, path);
}

void must(bool truth, const char* what) {
  if (truth) return;
  std::fprintf(stderr, "a case cannot go on: %s: %s\n", what, std::strerror(errno));
  ::_exit(9);
}

void wait_for_tick() {
  timespec start{}, now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &start);
  for (int ticks = 0; ticks < 2;) {  // the first tick may be over immediately
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (compare(start, now) >= 0) continue;
    ++ticks;
    start = now;
  }
}

}  // namespace s3oram::conformance
