#include "oramcore/base/identity.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

constexpr uid_t kKeep = static_cast<uid_t>(-1);

tl::unexpected<Error> failure(uid_t user) {
  return system_failure(errno, "this process cannot become user {}, the owner of the vault", user);
}

// The effective user of this thread alone: glibc would change all of them.
bool set_thread_user(uid_t user) { return ::syscall(SYS_setresuid, kKeep, user, kKeep) == 0; }

}  // namespace

Result<Identity> Identity::become_owner_of(const std::filesystem::path& vault) {
  Identity identity;
  struct stat stat {};
  if (::stat(vault.c_str(), &stat) != 0) return system_failure(errno, "{}", vault.string());
  if (::geteuid() != 0 || stat.st_uid == 0) return identity;
  const uid_t user = stat.st_uid;
  const passwd* entry = ::getpwuid(user);
  const gid_t group = entry ? entry->pw_gid : stat.st_gid;
  const bool groups =
      entry ? ::initgroups(entry->pw_name, group) == 0 : ::setgroups(1, &group) == 0;
  if (!groups || ::setresgid(group, group, group) != 0 || ::setresuid(user, user, 0) != 0)
    return failure(user);
  identity.may_be_root_ = true;
  return identity;
}

Status Identity::as_root(const std::function<Status()>& work) const {
  if (!may_be_root_) return work();
  const uid_t user = ::geteuid();
  if (!set_thread_user(0)) return failure(0);
  Status done = work();
  if (!set_thread_user(user)) return failure(user);
  return done;
}

Status Identity::settle() {
  if (!may_be_root_) return {};
  const uid_t user = ::geteuid();
  if (::setresuid(user, user, user) != 0) return failure(user);
  may_be_root_ = false;
  return {};
}

}  // namespace s3oram
