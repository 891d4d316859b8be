// Gives up root's rights, and makes sure that they are gone.
#include "oramcore/base/identity.h"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "oramcore/base/system_error.h"

extern char** environ;

namespace s3oram {
namespace {

using CapabilitySets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

/// The variables that programs started later may see. All others, such as tokens, may be intended
/// for root alone.
constexpr std::array<std::string_view, 14> kKept = {
    "PATH=",     "LANG=",           "LANGUAGE=", "LC_",   "TZ=",   "TERM=",  "NOTIFY_SOCKET=",
    "WATCHDOG_", "JOURNAL_STREAM=", "S3ORAMFS_", "ASAN_", "TSAN_", "UBSAN_", "LSAN_"};

void clean_environment() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (std::ranges::none_of(kKept, [&](std::string_view kept) { return text.starts_with(kept); }))
      names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

bool change_capabilities(long call, CapabilitySets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return ::syscall(call, &header, sets.data()) == 0;
}

bool has_capabilities() {
  CapabilitySets sets{};
  if (!change_capabilities(SYS_capget, sets)) return true;
  return std::ranges::any_of(sets, [](const __user_cap_data_struct& set) {
    return (set.effective | set.permitted | set.inheritable) != 0;
  });
}

/// Drops the capabilities of this process and of all that it starts. Those that it has no right to
/// drop are made useless by no_new_privs.
void empty_bounding_set() {
  for (unsigned long capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0;
       ++capability)
    ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

bool is_only(uid_t uid, gid_t gid) {
  uid_t users[3];
  gid_t groups[3];
  if (::getresuid(&users[0], &users[1], &users[2]) != 0 ||
      ::getresgid(&groups[0], &groups[1], &groups[2]) != 0)
    return false;
  return std::ranges::all_of(users, [&](uid_t each) { return each == uid; }) &&
         std::ranges::all_of(groups, [&](gid_t each) { return each == gid; });
}

}  // namespace

Result<User> find_user(uid_t uid, gid_t group) {
  if (const passwd* entry = ::getpwuid(uid)) return User{uid, entry->pw_gid, entry->pw_name};
  if (group == 0)
    return fail(Errc::unsupported,
                "the system knows no user {}, whose files belong to root's group: give them to the "
                "user's own group (chgrp)",
                uid);
  return User{uid, group, {}};
}

Status become(const User& user, SetuidPrograms setuid) {
  const auto failure = [&](const char* what) {
    return system_failure(errno, "this process cannot become user {} ({})", user.uid, what);
  };
  if (setuid == SetuidPrograms::dead) empty_bounding_set();
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  const bool grouped = user.name.empty() ? ::setgroups(1, &user.gid) == 0
                                         : ::initgroups(user.name.c_str(), user.gid) == 0;
  if (!grouped || ::setresgid(user.gid, user.gid, user.gid) != 0) return failure("groups");
  if (::setresuid(user.uid, user.uid, user.uid) != 0) return failure("user");
  CapabilitySets none{};
  if (!change_capabilities(SYS_capset, none)) return failure("capabilities");
  if (setuid == SetuidPrograms::dead && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return failure("no new privileges");
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return failure("dumpable");
  clean_environment();
  errno = EPERM;
  constexpr uid_t kKeep = static_cast<uid_t>(-1);
  if (!is_only(user.uid, user.gid) || has_capabilities() || ::setresuid(kKeep, 0, kKeep) == 0)
    return failure("root's rights are still there");
  return {};
}

}  // namespace s3oram
