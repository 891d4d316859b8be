// The user that a program runs as. A vault is always used by its owner: if root mounts another
// user's vault, as from /etc/fstab, or repairs it, the program becomes that user before it reads
// anything of the vault, and gives up root's rights for good. So whatever a user puts into a vault
// is only read with that user's own rights.
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

/// Returns the user `uid`, with the group `group` if the system does not know the user. Errors:
/// unsupported (that group would be root's).
Result<User> find_user(uid_t uid, gid_t group);

/// What programs with the setuid bit do that are started later.
enum class SetuidPrograms {
  dead,   // they give no rights
  usable  // fusermount3 is one
};

/// Makes root become `user` for good, with the groups of a login. Gives up the saved uid and all
/// capabilities, keeps other processes of the user from looking into this one, and drops the
/// environment except language, terminal and the like. Call it while the process has one thread.
/// Errors: failed; the process must then exit.
Status become(const User& user, SetuidPrograms setuid = SetuidPrograms::dead);

}  // namespace s3oram
