// Asks a file system for its free bytes and inodes.
#include "oramcore/base/disk_room.h"

#include <sys/statvfs.h>

#include <cerrno>

#include "oramcore/base/human.h"

namespace s3oram {

namespace {

/// Asks about the nearest directory that exists; returns false if that fails.
bool ask_disk(const std::filesystem::path& path, struct statvfs& disk) {
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(path, error);
  while (::statvfs(there.c_str(), &disk) != 0) {
    if (errno != ENOENT || !there.has_relative_path()) return false;
    there = there.parent_path();
  }
  return true;
}

}  // namespace

std::optional<std::uint64_t> disk_room(const std::filesystem::path& path) {
  struct statvfs disk {};
  if (!ask_disk(path, disk)) return std::nullopt;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

Status check_disk_room(const std::filesystem::path& path, std::uint64_t bytes,
                       std::uint64_t files) {
  struct statvfs disk {};
  if (!ask_disk(path, disk)) return {};  // creating the file will report it
  if ((disk.f_flag & ST_RDONLY) != 0)
    return fail(Errc::failed, "{}: its file system is read-only; name another directory",
                path.string());
  const std::uint64_t room = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (room < bytes)
    return fail(Errc::disk_full,
                "{}: its disk has {} free, and {} are needed to begin with; make room there, or "
                "name a directory on another disk",
                path.string(), human_size(room), human_size(bytes));
  if (disk.f_files > 0 && disk.f_favail < files)  // some file systems do not count files
    return fail(Errc::disk_full,
                "{}: its file system takes {} more files (df -i), and {} are needed to begin with",
                path.string(), disk.f_favail, files);
  return {};
}

}  // namespace s3oram
