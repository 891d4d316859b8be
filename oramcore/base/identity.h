// Whom a program works as. A vault is always used by its owner: if root mounts somebody's vault, as
// from /etc/fstab, or repairs it, the program becomes that user before it reads anything of the
// vault, and gives up root's rights for good. So what a user puts into a vault is only ever read
// with that user's own rights.
#pragma once

#include <sys/types.h>

#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;  // empty: the system has no user of this number
};

/// The user `uid`, whose group is `group` if the system does not know the user. Errors: unsupported
/// (that group would be root's).
Result<User> find_user(uid_t uid, gid_t group);

/// What becomes of programs with the setuid bit that are started later.
enum class SetuidPrograms {
  dead,   // they give no rights
  usable  // fusermount3 is one
};

/// Has root become `user` for good: with the groups that a login gives, without a saved number, any
/// capability, a way for other processes of the user to look into this one, or the environment, of
/// which only language, terminal and the like are kept. To be called while the process has one
/// thread. Errors: failed; the process is then to end.
Status become(const User& user, SetuidPrograms setuid = SetuidPrograms::dead);

}  // namespace s3oram
