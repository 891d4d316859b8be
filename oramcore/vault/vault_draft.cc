// Makes a vault's directory in such a way that a crash leaves only files that the next attempt may
// delete.
#include "oramcore/vault/vault_draft.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "oramcore/base/durable_file.h"
#include "oramcore/base/system_error.h"
#include "oramcore/vault/vault_place.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

fs::path mark_file(const fs::path& directory) { return directory / "unfinished"; }

/// Returns whether an entry belongs to an unfinished vault. This includes files that durable_file.h
/// was writing, which have a longer name.
bool is_of_a_draft(const fs::path& entry) {
  const std::string name = entry.filename();
  const auto was_to_be = [&](const std::string& file) {
    return name.starts_with(file + ".") && name.size() == file.size() + sizeof ".XXXXXX" - 1;
  };
  return name == "unfinished" || name == "run" || name == "servers" || name == "lock" ||
         name == "vault.key" || was_to_be("lock") || was_to_be("vault.key") ||
         was_to_be("vault.json");
}

Status remove_all(const fs::path& directory, const fs::path& but) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (entry.path() != but && !error) fs::remove_all(entry, error);
  return error ? system_failure(error.value(), "{}: cannot be cleared", directory.string())
               : Status{};
}

}  // namespace

Status VaultDraft::check(const fs::path& directory) {
  const auto refused = [&] {
    return fail(Errc::exists, "{} exists already, and is not overwritten", directory.string());
  };
  struct stat stat {};
  if (::stat(directory.c_str(), &stat) == 0 && !S_ISDIR(stat.st_mode)) return refused();
  // The directory's owner uses the vault, and could not read root's files in it.
  S3O_TRY(VaultPlace::check_new(directory));
  if (::stat(directory.c_str(), &stat) != 0) return {};
  std::error_code error;
  const bool begun = fs::exists(mark_file(directory), error);
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (!begun || !is_of_a_draft(entry.path())) return refused();
  return error ? system_failure(error.value(), "{}", directory.string()) : Status{};
}

Result<VaultDraft> VaultDraft::start(const fs::path& directory) {
  S3O_TRY(check(directory));
  VaultDraft draft(directory);
  struct stat stat {};
  if (::mkdir(directory.c_str(), 0700) == 0)
    draft.made_ = true;
  else if (errno != EEXIST)
    return system_failure(errno, "{}: cannot be made", directory.string());
  else if (::stat(directory.c_str(), &stat) != 0 || ::chmod(directory.c_str(), 0700) != 0)
    return system_failure(errno, "{}: cannot be made private", directory.string());
  else
    draft.former_mode_ = stat.st_mode & 07777;
  S3O_TRY(draft.mark());
  draft.active_ = true;
  return draft;
}

/// Creates and locks the mark. The process that holds the lock may clear the directory.
Status VaultDraft::mark() {
  const fs::path path = mark_file(directory_);
  mark_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (mark_.get() < 0) return system_failure(errno, "{}", path.string());
  const bool locked = ::flock(mark_.get(), LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno != EWOULDBLOCK)
    return system_failure(errno, "{}: cannot be locked", path.string());
  struct stat stat {};
  if (!locked || ::fstat(mark_.get(), &stat) != 0 || stat.st_nlink == 0)
    return fail(Errc::vault_in_use, "{}: another process is making it", directory_.string());
  S3O_TRY(check(directory_));
  S3O_TRY(remove_all(directory_, path));
  return sync_directory(directory_);
}

VaultDraft::VaultDraft(VaultDraft&& other) noexcept
    : directory_(std::move(other.directory_)),
      mark_(std::move(other.mark_)),
      made_(other.made_),
      former_mode_(other.former_mode_),
      active_(std::exchange(other.active_, false)) {}

VaultDraft::~VaultDraft() {
  if (!active_) return;
  std::error_code ignored;  // the earlier error is the one to report
  if (made_) {
    fs::remove_all(directory_, ignored);
    return;
  }
  static_cast<void>(remove_all(directory_, {}));
  fs::permissions(directory_, static_cast<fs::perms>(former_mode_), ignored);
}

void VaultDraft::forget_mark(const fs::path& directory) {
  std::error_code ignored;  // beside a vault.json the mark has no effect
  fs::remove(mark_file(directory), ignored);
}

}  // namespace s3oram
