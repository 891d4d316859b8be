// The user that a program runs as. A vault is always used as its owner: if root mounts another
// user's vault, for example from /etc/fstab, or repairs it, the program becomes that user before it
// reads anything in the vault, and permanently gives up root's rights. So whatever a user puts into
// a vault is only read with that user's own rights.
#pragma once

#include <sys/types.h>

#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;  // empty if the system has no user with this number
};

/// Returns the user `uid`, with the group `group` if the system does not know the user. Errors:
/// unsupported (that group would be root's).
Result<User> find_user(uid_t uid, gid_t group);

/// The effect of the setuid bit on programs that are started later.
enum class SetuidPrograms {
  dead,   // they give no rights
  usable  // needed for fusermount3
};

/// Makes root become `user` permanently, with the groups of a login. Gives up the saved uid and all
/// capabilities, prevents other processes of the user from inspecting this one, and clears the
/// environment except for language, terminal and the like. Call it while the process has only one
/// thread. Errors: failed; the process must then exit.
Status become(const User& user, SetuidPrograms setuid = SetuidPrograms::dead);

}  // namespace s3oram
