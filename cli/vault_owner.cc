// Finds the owner of a vault: from the kernel if it is mounted, otherwise from its directory.
#include "cli/vault_owner.h"

#include <unistd.h>

#include "cli/mount_table.h"
#include "oramcore/base/directory.h"
#include "oramcore/base/identity.h"
#include "oramcore/vault/vault_place.h"

namespace s3oram {

Status become_owner(const std::filesystem::path& name, const std::function<Status()>& before,
                    VaultUse use) {
  if (::geteuid() != 0) return {};
  const auto mount = listed_mount(name);
  std::optional<User> owner;
  std::optional<VaultPlace> place;
  if (mount && mount->user != 0) {
    S3O_ASSIGN(auto user, find_user(mount->user, mount->group));
    owner = std::move(user);
  } else {
    auto opened = VaultPlace::open(mount ? mount->vault : name);
    if (!opened && (use == VaultUse::unmount || opened.error().code == Errc::not_a_vault))
      return {};  // the caller's Vault::find() reports what is wrong
    if (!opened) return fail(std::move(opened).error());
    owner = opened->owner();
    place = std::move(*opened);
  }
  if (owner) {
    if (before) S3O_TRY(before());
    S3O_TRY(
        become(*owner, use == VaultUse::unmount ? SetuidPrograms::usable : SetuidPrograms::dead));
  }
  return place && use == VaultUse::files ? place->check_files() : Status();
}

Status require_own_directory(const std::filesystem::path& directory) {
  if (::geteuid() != 0) return {};
  const auto refused = [&](const std::string& why) {
    return fail(Errc::usage, "{}: {}; run this as the user to whom it belongs (see: runuser)",
                directory.string(), why);
  };
  if (const auto mount = listed_mount(directory); mount && mount->user != 0)
    return refused(fmt::format("is a mount of user {}", mount->user));
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) return {};
  S3O_ASSIGN(auto opened, open_directory(directory));
  if (!is_roots(opened.status.st_uid))
    return refused(fmt::format("belongs to user {}", opened.status.st_uid));
  if (is_shared(opened.status, false) || !opened.exchangeable_in.empty())
    return refused("other users could replace what root writes there");
  return {};
}

}  // namespace s3oram
