// The watch over a file's name (file_watch.h).
#include "oramcore/base/file_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

/// The file that has the name now: where the path leads, or else in the directory where it was. If
/// there is none, errno says why.
bool find(const std::filesystem::path& path, const Descriptor& directory, struct stat& file) {
  if (::stat(path.c_str(), &file) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) return false;
  return ::fstatat(directory.get(), path.filename().c_str(), &file, 0) == 0;
}

}  // namespace

FileWatch::FileWatch(std::filesystem::path path, Size size) : path_(std::move(path)), size_(size) {
  Descriptor directory(::open(path_.parent_path().empty() ? "." : path_.parent_path().c_str(),
                              O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat found {};
  if (::fstatat(directory.get(), path_.filename().c_str(), &found, 0) != 0) return;
  seen_ = std::make_unique<Seen>();
  seen_->directory = std::move(directory);
  seen_->device = found.st_dev;
  seen_->inode = found.st_ino;
  seen_->size = static_cast<std::uint64_t>(found.st_size);
}

Status FileWatch::check() const {
  if (!seen_) return {};
  struct stat found {};
  if (!find(path_, seen_->directory, found)) {
    if (errno != ENOENT && errno != ENOTDIR) return system_failure(errno, "{}", path_.string());
    return fail(Errc::damaged_vault, "{} was removed while it is in use", path_.string());
  }
  if (found.st_dev != seen_->device || found.st_ino != seen_->inode)
    return fail(Errc::damaged_vault, "{} was replaced by another file while it is in use",
                path_.string());
  const auto size = static_cast<std::uint64_t>(found.st_size);
  const std::uint64_t before = seen_->size;
  if (size_ == Size::never_shrinks && size < before)
    return fail(Errc::damaged_vault,
                "{} was cut short while it is in use: it has {} instead of at least {}",
                path_.string(), human_size(size), human_size(before));
  seen_->size = size;
  struct statvfs disk {};
  if (::fstatvfs(seen_->directory.get(), &disk) == 0 && (disk.f_flag & ST_RDONLY) != 0)
    return fail(Errc::failed, "{}: its file system is mounted read-only", path_.string());
  return {};
}

}  // namespace s3oram
