// Decides as which user a vault may be used. SQLite, the servers and others open a vault's files by
// their path. So if root owns the vault, nobody else may be able to replace a directory on that
// path; for anyone else's vault, root becomes its owner.
#include "oramcore/vault/vault_place.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "oramcore/base/directory.h"
#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kDepth = 3;  // VAULT, servers, servers/N

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::string whose(uid_t user) {
  return user == 0 ? std::string("root's") : fmt::format("user {}'s", user);
}

/// Checks a file, or the target of a link; `at` is its status.
Status check_file(const struct stat& at, const fs::path& path, uid_t owner) {
  if (at.st_uid != owner)
    return fail(Errc::unsupported,
                "{} is {}, and the vault {}; root uses a vault only if all of it is one user's "
                "(see: chown)",
                path.string(), whose(at.st_uid), whose(owner));
  switch (at.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFLNK:
    case S_IFSOCK:
      return {};
    default:
      return fail(Errc::unsupported, "{} does not belong in a vault; remove it", path.string());
  }
}

/// Checks every file in a directory. Ignores files that vanish meanwhile.
Status check_files_in(Descriptor opened, const fs::path& path, uid_t owner, unsigned depth) {
  const int fd = opened.get();
  const std::unique_ptr<DIR, DirectoryCloser> directory(::fdopendir(fd));
  if (!directory) return system_failure(errno, "{}", path.string());
  static_cast<void>(opened.release());
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    const fs::path inner = path / name;
    struct stat status {};
    if (::fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    S3O_TRY(check_file(status, inner, owner));
    if (S_ISLNK(status.st_mode) && ::fstatat(fd, entry->d_name, &status, 0) == 0)
      S3O_TRY(check_file(status, inner, owner));
    if (!S_ISDIR(status.st_mode)) continue;
    if (is_shared(status, true))
      return fail(Errc::unsupported, "{}: others may put files into it; run: chmod 700 {}",
                  inner.string(), shell_word(inner));
    if (depth == 0) continue;
    Descriptor next(::openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (next.get() >= 0) S3O_TRY(check_files_in(std::move(next), inner, owner, depth - 1));
  }
  return {};
}

/// Returns whether an open directory looks like a vault.
bool looks_like_vault(const Descriptor& directory) {
  const auto has = [&](const char* file) {
    struct stat status {};
    return ::fstatat(directory.get(), file, &status, AT_SYMLINK_NOFOLLOW) == 0;
  };
  return has("vault.json") || has("vault.db");
}

tl::unexpected<Error> exchangeable(const fs::path& name, const fs::path& in) {
  struct stat status {};
  const bool by_owner = ::lstat(in.c_str(), &status) == 0 && !is_roots(status.st_uid);
  return fail(Errc::unsupported,
              "{} is root's, but in {}, where {} could put another directory in its place; move "
              "it, or give it to the user who is to use it (chown -R)",
              name.string(), in.string(),
              by_owner ? fmt::format("user {}", status.st_uid) : std::string("others"));
}

}  // namespace

Result<VaultPlace> VaultPlace::open(const fs::path& name) {
  VaultPlace place;
  place.path_ = name;
  if (::geteuid() != 0) return place;
  auto directory = open_directory(name);
  if (std::error_code error;
      !directory && !fs::is_directory(name, error) && error != std::errc::permission_denied)
    return fail(Errc::not_a_vault, "{}: not a vault: {}", name.string(),
                error ? error.message() : "not a directory");
  if (!directory) return fail(std::move(directory).error());
  const struct stat& status = directory->status;
  place.path_ = std::move(directory->path);
  if (is_shared(status, true) && !looks_like_vault(directory->descriptor))
    return fail(Errc::not_a_vault, "{}: not a vault: it has no vault.json", name.string());
  if (is_shared(status, true))
    return fail(Errc::unsupported,
                "{}: users other than its owner may put files into it (mode {:04o}), so root does "
                "not use a vault there; if it is a vault, run: chmod 700 {}",
                place.path_.string(), status.st_mode & 07777, shell_word(place.path_));
  place.all_files_ = status.st_uid;
  if (status.st_uid == ::geteuid()) {
    if (directory->exchangeable_in.empty()) return place;
    return exchangeable(place.path_, directory->exchangeable_in);
  }
  auto user = find_user(status.st_uid, status.st_gid);
  if (!user) return fail(user.error().code, "{}: {}", place.path_.string(), user.error().message);
  place.owner_ = std::move(*user);
  return place;
}

Status VaultPlace::check_files() const {
  if (!all_files_) return {};
  Descriptor directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (directory.get() < 0 || ::fstat(directory.get(), &status) != 0)
    return system_failure(errno, "{}", path_.string());
  S3O_TRY(check_file(status, path_, *all_files_));
  return check_files_in(std::move(directory), path_, *all_files_, kDepth);
}

Status VaultPlace::check_new(const fs::path& name) {
  if (::geteuid() != 0) return {};
  S3O_ASSIGN(auto nearest, open_nearest_directory(name));
  const uid_t owner = nearest.status.st_uid;
  if (!is_roots(owner))
    return fail(Errc::usage,
                "{} belongs to the user {}; make its vault as that user, or name a directory that "
                "does not exist yet, in one of root's",
                nearest.path.string(), owner);
  // The directory itself will be made private. The directories above it must be private already.
  const bool is_there = nearest.is_all;
  const fs::path in = !nearest.exchangeable_in.empty()                ? nearest.exchangeable_in
                      : !is_there && is_shared(nearest.status, false) ? nearest.path
                                                                      : fs::path();
  if (in.empty()) return {};
  return fail(Errc::usage,
              "{}: others could replace what is in {}; make the vault as the user who is to use "
              "it, or in a directory of root's",
              name.string(), in.string());
}

}  // namespace s3oram
