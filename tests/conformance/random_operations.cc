// Draws random operations, and performs them.
#include "tests/conformance/random_operations.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <sstream>

#include "tests/conformance/observer.h"
#include "tests/conformance/tree_listing.h"

namespace s3oram::conformance {
namespace {

constexpr std::uint64_t kLargest = 700'000;

enum Kind : int {
  open_file,
  close_file,
  write_file,
  read_file,
  truncate_file,
  truncate_path,
  punch,
  allocate,
  copy_range,
  map_write,
  sync_file,
  stat_file,
  make_directory_,
  remove_directory,
  unlink_path,
  rename_path,
  link_path,
  symlink_path,
  read_link,
  node,
  change_mode,
  change_owner,
  set_times,
  set_xattr,
  get_xattr,
  remove_xattr,
  stat_path,
  list_path,
  kinds
};

struct Weight {
  const char* name;
  unsigned weight;
};
constexpr Weight kWeights[kinds] = {
    {"open", 14},       {"close", 4}, {"write", 16},    {"read", 8},     {"ftruncate", 4},
    {"truncate", 4},    {"punch", 3}, {"fallocate", 2}, {"copy", 4},     {"map write", 4},
    {"fsync", 1},       {"fstat", 4}, {"mkdir", 8},     {"rmdir", 5},    {"unlink", 8},
    {"rename", 14},     {"link", 6},  {"symlink", 5},   {"readlink", 2}, {"mknod", 2},
    {"chmod", 4},       {"chown", 3}, {"utimensat", 3}, {"setxattr", 5}, {"getxattr", 3},
    {"removexattr", 2}, {"stat", 6},  {"list", 4},
};

constexpr int kOpenFlags[] = {O_RDONLY,
                              O_WRONLY,
                              O_RDWR,
                              O_RDWR | O_CREAT,
                              O_RDWR | O_CREAT | O_EXCL,
                              O_RDWR | O_CREAT | O_TRUNC,
                              O_WRONLY | O_TRUNC,
                              O_WRONLY | O_APPEND,
                              O_RDWR | O_CREAT | O_APPEND,
                              O_RDONLY | O_DIRECTORY,
                              O_RDONLY | O_NOFOLLOW,
                              O_RDWR | O_CREAT | O_NOFOLLOW};
constexpr unsigned kRenameFlags[] = {0, 0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};

/// Returns one of a few names, so that operations meet at the same name. Some lead through links,
/// files and dots.
std::string random_path(std::mt19937_64& random) {
  static constexpr const char* kNames[] = {"a", "b", "c", "d", "e", "a\nb"};
  std::string path;
  const unsigned levels = random() % 5 < 3 ? 1 : random() % 5 < 4 ? 2 : 3;
  for (unsigned i = 0; i < levels; ++i) {
    if (i > 0) path += "/";
    path += random() % 60 == 0 ? ".." : kNames[random() % std::size(kNames)];
  }
  // No path may leave the directory.
  if (path.find("..") != std::string::npos) return "a/../b";
  return random() % 80 == 0 ? path + "/" : path;
}

std::string bytes_of(unsigned seed, std::uint64_t length) {
  std::string data(length, '\0');
  std::uint32_t state = seed * 2654435761u + 1;
  for (char& byte : data) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return data;
}

std::string outcome(long result) { return result < 0 ? error_name(errno) : std::to_string(result); }

std::string read_range(int fd, std::uint64_t offset, std::uint64_t length) {
  std::string data(length, '\0');
  std::uint64_t done = 0;
  while (done < length) {
    const ssize_t got =
        ::pread(fd, data.data() + done, length - done, static_cast<off_t>(offset + done));
    if (got < 0) return error_name(errno);
    if (got == 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  data.resize(done);
  return std::to_string(done) + " " + sum_of(data);
}

std::string write_map(int fd, std::uint64_t offset, const std::string& data) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return error_name(errno);
  const auto size = static_cast<std::uint64_t>(found.st_size);
  if (!S_ISREG(found.st_mode) || offset >= size) return "nothing to map";
  const std::uint64_t length = std::min<std::uint64_t>(data.size(), size - offset);
  void* map = ::mmap(nullptr, offset + length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return error_name(errno);
  std::copy_n(data.begin(), length, static_cast<char*>(map) + offset);
  const std::string result = outcome(::msync(map, offset + length, MS_ASYNC));
  ::munmap(map, offset + length);
  return result;
}

std::string copy_files(int from, std::uint64_t offset, int to, std::uint64_t target,
                       std::uint64_t length) {
  auto in = static_cast<off_t>(offset);
  auto out = static_cast<off_t>(target);
  std::uint64_t done = 0;
  while (done < length) {
    const ssize_t n = ::copy_file_range(from, &in, to, &out, length - done, 0);
    if (n < 0) return error_name(errno);
    if (n == 0) break;
    done += static_cast<std::uint64_t>(n);
  }
  return std::to_string(done);
}

}  // namespace

Operation random_operation(std::mt19937_64& random) {
  unsigned total = 0;
  for (const Weight& kind : kWeights) total += kind.weight;
  auto dice = static_cast<unsigned>(random() % total);
  Operation operation;
  while (dice >= kWeights[operation.kind].weight) dice -= kWeights[operation.kind++].weight;
  operation.path = random_path(random);
  operation.other = random_path(random);
  operation.flags = static_cast<unsigned>(random());
  operation.offset = random() % (random() % 3 == 0 ? kLargest : 10'000);
  operation.length = random() % (random() % 4 == 0 ? 200'000 : 5'000);
  operation.number = static_cast<unsigned>(random() % 100'000);
  operation.slot = static_cast<unsigned>(random() % World::kSlots);
  operation.second_slot = static_cast<unsigned>(random() % World::kSlots);
  return operation;
}

std::string to_text(const Operation& o) {
  std::ostringstream out;
  out << kWeights[o.kind].name << " \"" << escaped(o.path) << "\" \"" << escaped(o.other)
      << "\" offset " << o.offset << " length " << o.length << " flags " << o.flags << " number "
      << o.number << " slots " << o.slot << " " << o.second_slot;
  if (o.kind == open_file)
    out << " open flags " << std::oct << kOpenFlags[o.flags % std::size(kOpenFlags)];
  return out.str();
}

World::World(const std::string& root)
    : root_(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  must(root_ >= 0, root.c_str());
  files_.fill(-1);
}

World::~World() {
  for (const int fd : files_)
    if (fd >= 0) ::close(fd);
  ::close(root_);
}

std::string World::perform(const Operation& o) {
  const char* path = o.path.c_str();
  const char* other = o.other.c_str();
  unsigned slot = o.slot;  // except when opening: or the next slot that is open
  for (unsigned i = 1; i < kSlots && files_[slot] < 0 && o.kind != open_file; ++i)
    slot = (o.slot + i) % kSlots;
  int& fd = files_[slot];
  const auto offset = static_cast<off_t>(o.offset), length = static_cast<off_t>(o.length);
  // Extended attributes have no calls relative to a directory.
  must(::fchdir(root_) == 0, "fchdir");
  const std::string name = "user." + std::to_string(o.flags % 6);
  switch (o.kind) {
    case open_file: {
      if (fd >= 0) ::close(fd);
      const int flags = kOpenFlags[o.flags % std::size(kOpenFlags)] | O_NONBLOCK | O_CLOEXEC;
      fd = ::open(path, flags, 0600 | (o.number & 0177));
      return fd < 0 ? error_name(errno) : "opened";
    }
    case close_file: {
      const std::string result = outcome(::close(fd));
      fd = -1;
      return result;
    }
    case write_file: {
      struct stat found {};
      if (::fstat(fd, &found) == 0 && !S_ISREG(found.st_mode)) return "not a file";
      const std::string data = bytes_of(o.number, o.length);
      return outcome(::pwrite(fd, data.data(), data.size(), offset));
    }
    case read_file:
      return read_range(fd, o.offset, o.length);
    case truncate_file:
      return outcome(::ftruncate(fd, offset));
    case truncate_path:
      return outcome(::truncate(path, offset));
    case punch:
      return outcome(
          ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length + 1));
    case allocate:
      return outcome(::fallocate(fd, o.flags % 2 ? FALLOC_FL_KEEP_SIZE : 0, offset, length + 1));
    case copy_range:
      return copy_files(fd, o.offset, files_[o.second_slot], o.offset * 7 % kLargest, o.length);
    case map_write:
      return write_map(fd, o.offset, bytes_of(o.number, o.length));
    case sync_file:
      return outcome(o.flags % 2 ? ::fsync(fd) : ::fdatasync(fd));
    case stat_file: {
      struct stat found {};
      return ::fstat(fd, &found) < 0 ? error_name(errno) : attributes_text(found);
    }
    case make_directory_:
      return outcome(::mkdir(path, o.number & 07777));
    case remove_directory:
      return outcome(::rmdir(path));
    case unlink_path:
      return outcome(::unlink(path));
    case rename_path:
      return outcome(::renameat2(AT_FDCWD, path, AT_FDCWD, other,
                                 kRenameFlags[o.flags % std::size(kRenameFlags)]));
    case link_path:
      return outcome(
          ::linkat(AT_FDCWD, path, AT_FDCWD, other, o.flags % 2 ? AT_SYMLINK_FOLLOW : 0));
    case symlink_path:
      return outcome(::symlink(path, other));
    case read_link: {
      char target[4096];
      const ssize_t got = ::readlink(path, target, sizeof target);
      return got < 0 ? error_name(errno) : escaped({target, static_cast<std::size_t>(got)});
    }
    case node:
      return outcome(::mknod(path, (o.flags % 2 ? S_IFIFO : S_IFSOCK) | (o.number & 0777), 0));
    case change_mode:
      return outcome(::chmod(path, o.number & 07777));
    case change_owner:
      return outcome(::lchown(path, o.number % 5, o.number % 7));
    case set_times: {
      const timespec times[2] = {{o.number, static_cast<long>(o.offset)},
                                 {o.number * 3, static_cast<long>(o.length)}};
      return outcome(::utimensat(AT_FDCWD, path, times, o.flags % 2 ? AT_SYMLINK_NOFOLLOW : 0));
    }
    case set_xattr: {
      const std::string value = bytes_of(o.number, o.length % 200);
      const int how = o.flags % 3 == 0 ? XATTR_CREATE : o.flags % 3 == 1 ? XATTR_REPLACE : 0;
      return outcome(::lsetxattr(path, name.c_str(), value.data(), value.size(), how));
    }
    case get_xattr: {
      char value[256];
      const ssize_t got = ::lgetxattr(path, name.c_str(), value, sizeof value);
      return got < 0 ? error_name(errno) : sum_of({value, static_cast<std::size_t>(got)});
    }
    case remove_xattr:
      return outcome(::lremovexattr(path, name.c_str()));
    case stat_path: {
      struct stat found {};
      return (o.flags % 2 ? ::lstat(path, &found) : ::stat(path, &found)) < 0
                 ? error_name(errno)
                 : attributes_text(found);
    }
    default:
      return names_text(path);
  }
}

}  // namespace s3oram::conformance
