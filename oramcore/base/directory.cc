// Walks along a directory's name with one openat(2) for each part, so that a user who replaces a
// part meanwhile cannot redirect it away from what was checked.
#include "oramcore/base/directory.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMostLinks = 40;  // the kernel's limit

/// Returns the user that represents all unmapped users of this user namespace; std::nullopt in the
/// initial namespace.
std::optional<uid_t> unmapped_user() {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  constexpr std::uint64_t kAll = 0xffffffff;
  if (!(map >> inside >> outside >> count) || count == kAll) return std::nullopt;
  std::ifstream number("/proc/sys/fs/overflowuid");
  uid_t user = 0;
  return number >> user ? std::optional(user) : std::nullopt;
}

struct FollowedLink {
  fs::path path;
  uid_t owner = 0;
};

class Walk {
 public:
  explicit Walk(const fs::path& name) : name_(name) {}

  Result<DirectoryHandle> run(bool may_end_early) {
    std::error_code error;
    const fs::path absolute = fs::absolute(name_, error);
    if (error) return system_failure(error.value(), "{}", name_.string());
    prepend(absolute);
    S3O_TRY(enter(Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)), "/"));
    while (!parts_.empty()) {
      const fs::path part = std::exchange(parts_.front(), {});
      parts_.pop_front();
      const Status taken = take(part);
      if (taken) continue;
      if (!may_end_early || !missing_) return fail(taken.error());
      here_.is_all = false;
      break;
    }
    S3O_TRY(check_links());
    return std::move(here_);
  }

 private:
  /// Puts the parts of `path` before the remaining ones.
  void prepend(const fs::path& path) {
    std::vector<fs::path> parts;
    for (const fs::path& part : path)
      if (!part.empty() && part != "." && part != "/") parts.push_back(part);
    parts_.insert(parts_.begin(), parts.begin(), parts.end());
  }

  Status take(const fs::path& part) {
    const fs::path next = part == ".." ? here_.path.parent_path() : here_.path / part;
    // O_DIRECTORY comes first because it triggers an automount.
    Descriptor entry(::openat(here_.descriptor.get(), part.c_str(),
                              O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC));
    if (entry.get() >= 0) return enter(std::move(entry), next);
    missing_ = errno == ENOENT;
    if (errno != ENOTDIR) return system_failure(errno, "{}", next.string());
    entry =
        Descriptor(::openat(here_.descriptor.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (entry.get() < 0 || ::fstat(entry.get(), &status) != 0)
      return system_failure(errno, "{}", next.string());
    if (!S_ISLNK(status.st_mode)) return system_failure(ENOTDIR, "{}", next.string());
    return follow(entry, next, status.st_uid);
  }

  Status enter(Descriptor directory, fs::path path) {
    if (directory.get() < 0) return system_failure(errno, "{}", path.string());
    if (here_.exchangeable_in.empty() && here_.descriptor.get() >= 0 &&
        (!is_roots(here_.status.st_uid) || is_shared(here_.status, false)))
      here_.exchangeable_in = here_.path;
    if (::fstat(directory.get(), &here_.status) != 0)
      return system_failure(errno, "{}", path.string());
    here_.descriptor = std::move(directory);
    here_.path = std::move(path);
    return {};
  }

  Status follow(const Descriptor& link, const fs::path& path, uid_t owner) {
    if (links_.size() == kMostLinks) return system_failure(ELOOP, "{}", name_.string());
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(link.get(), "", target.data(), target.size());
    if (size <= 0) return system_failure(size < 0 ? errno : ENOENT, "{}", path.string());
    links_.push_back({path, owner});
    const fs::path to(std::string(target.data(), static_cast<std::size_t>(size)));
    prepend(to);
    if (to.is_absolute())
      return enter(Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)), "/");
    return {};
  }

  Status check_links() const {
    for (const FollowedLink& link : links_)
      if (!is_roots(link.owner) && link.owner != here_.status.st_uid)
        return fail(Errc::failed,
                    "{}: this link is user {}'s and leads to {}, which is user {}'s: root does not "
                    "follow it; name the directory itself",
                    link.path.string(), link.owner, here_.path.string(), here_.status.st_uid);
    return {};
  }

  const fs::path& name_;
  std::deque<fs::path> parts_;  // remaining
  std::vector<FollowedLink> links_;
  DirectoryHandle here_;
  bool missing_ = false;  // whether the last part does not exist
};

}  // namespace

bool is_roots(uid_t user) {
  static const std::optional<uid_t> unmapped = unmapped_user();
  return user == 0 || user == unmapped;
}

bool is_shared(const struct stat& directory, bool sticky_counts) {
  if (!sticky_counts && (directory.st_mode & S_ISVTX) != 0) return false;
  const bool by_group = (directory.st_mode & S_IWGRP) != 0 && directory.st_gid != 0;
  return by_group || (directory.st_mode & S_IWOTH) != 0;
}

Result<DirectoryHandle> open_directory(const fs::path& name) { return Walk(name).run(false); }

Result<DirectoryHandle> open_nearest_directory(const fs::path& name) {
  return Walk(name).run(true);
}

}  // namespace s3oram
