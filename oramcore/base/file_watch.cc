// Compares an open file with the one that its name leads to (file_watch.h).
#include "oramcore/base/file_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
FileWatch::FileWatch(std::filesystem::path path, Size size, From from)
    : path_(std::filesystem::absolute(path)), name_(path_.filename()), size_(size) {
  std::filesystem::path above = path_.parent_path();
  if (from == From::the_one_above) {
    name_ = above.filename() / name_;
    above = above.parent_path();
  }
  Descriptor directory(::open(above.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat found {};
  if (::fstatat(directory.get(), name_.c_str(), &found, 0) != 0) return;
  const std::filesystem::path within = name_.has_parent_path() ? name_.parent_path() : ".";
  seen_ = std::make_unique<Seen>();
  seen_->own =
      Descriptor(::openat(directory.get(), within.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  seen_->directory = std::move(directory);
  seen_->device = found.st_dev;
  seen_->inode = found.st_ino;
  seen_->size = static_cast<std::uint64_t>(found.st_size);
}

Status FileWatch::check() const {
  if (!seen_) return {};
  struct stat found {};
  if (::fstatat(seen_->directory.get(), name_.c_str(), &found, 0) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return system_failure(errno, "{}", path_.string());
    return fail(Errc::damaged_vault, "{} was removed while in use", path_.string());
  }
  if (found.st_dev != seen_->device || found.st_ino != seen_->inode)
    return fail(Errc::damaged_vault, "{} was replaced by another file while in use",
                path_.string());
  const auto size = static_cast<std::uint64_t>(found.st_size);
  const std::uint64_t before = seen_->size;
  if (size_ == Size::never_shrinks && size < before)
    return fail(Errc::damaged_vault,
                "{} was truncated while in use: it has {} instead of at least {}", path_.string(),
                human_size(size), human_size(before));
  seen_->size = size;
  struct statvfs disk {};
  if (::fstatvfs(seen_->own.get(), &disk) == 0 && (disk.f_flag & ST_RDONLY) != 0)
    return fail(Errc::failed, "{}: its file system is mounted read-only", path_.string());
  return {};
}

}  // namespace s3oram
