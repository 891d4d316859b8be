// Searches the kernel's list of mounts for the one that the user means.
#include "cli/mount_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "cli/mount_control.h"

namespace s3oram {
namespace {

namespace stdfs = std::filesystem;

/// Returns where the vault is mounted, as its daemon says. Errors: vault_in_use (the mount cannot
/// be seen from here), not_mounted (the daemon does not say where), those of ask_daemon().
Result<VaultMount> mount_of(const Vault& vault) {
  S3O_ASSIGN(const auto status, ask_daemon(vault, "status", kStatusPatience));
  const auto point = status.find("mountpoint"), pid = status.find("pid");
  if (point == status.end() || pid == status.end() || !point->is_string() ||
      !pid->is_number_unsigned())
    return fail(Errc::not_mounted, "{}: its daemon does not say where", vault.directory().string());
  auto mount = vault_mounted_at(point->get<std::string>());
  if (!mount)
    return fail(Errc::vault_in_use,
                "{}: its daemon, process {}, is running, but nothing is mounted at {} here: either "
                "the daemon ends once no program uses its files (after 'umount --lazy'), or the "
                "vault is mounted in another mount namespace",
                vault.directory().string(), pid->get<unsigned>(), point->get<std::string>());
  mount->vault = vault.directory();
  return *mount;
}

/// Returns the mount with the current path of its vault. The kernel's list has the path that the
/// vault had when it was mounted. If no daemon uses the vault there, the vault may have been moved:
/// the daemon's working directory is VAULT/run, wherever that is.
VaultMount with_present_vault(const VaultMount& mount) {
  const auto used = Vault::is_in_use(mount.vault);
  if (!used || *used) return mount;
  std::error_code error;  // ignored: other users' processes cannot be examined
  for (const auto& process : stdfs::directory_iterator("/proc", error)) {
    const stdfs::path folder = stdfs::read_symlink(process.path() / "cwd", error);
    if (folder.filename() != "run") continue;
    const auto vault = Vault::find(folder.parent_path());
    if (!vault) continue;
    if (const auto found = mount_of(*vault); found && found->point == mount.point) return *found;
  }
  return mount;
}

/// Returns whether the mounted vault has been moved away from `path`, and another vault is there.
bool is_another_vault(const stdfs::path& path, const VaultMount& mount) {
  return mount.vault != path && Vault::find(path).has_value();
}

/// Returns an error text if `name` is not a vault but lies inside a mount; otherwise an empty one.
std::string say_if_inside(const stdfs::path& name) {
  const auto path = as_mount_point(name);
  for (const VaultMount& mount : vault_mounts())
    if (is_inside(path, mount.point) && !Vault::find(name))
      return fmt::format("{} is inside {}, where the vault {} is mounted; name one of these",
                         name.string(), mount.point.string(), mount.vault.string());
  return "";
}

/// Returns whether the mount belongs to the owner of the directory `vault`. If the directory is
/// gone, this is not known, and it returns true.
bool is_by_owner(const VaultMount& mount, const stdfs::path& vault) {
  struct stat status {};
  return ::stat(vault.c_str(), &status) != 0 || status.st_uid == mount.user;
}

bool stands_for(const stdfs::path& path, const VaultMount& mount) {
  return mount.point == path || (mount.vault == path && is_by_owner(mount, path));
}

}  // namespace

std::optional<VaultMount> listed_mount(const stdfs::path& name) {
  const auto mounts = vault_mounts();
  std::error_code error;
  const auto point = as_mount_point(name);
  for (const auto& path : {point, stdfs::canonical(point, error)})
    for (const VaultMount& mount : mounts)
      if (!path.empty() && stands_for(path, mount)) return mount;
  return std::nullopt;
}

Result<VaultMount> find_mount(const stdfs::path& name) {
  const auto mounts = vault_mounts();
  const auto find = [&](const stdfs::path& path) -> std::optional<VaultMount> {
    for (const VaultMount& mount : mounts) {
      if (!stands_for(path, mount)) continue;
      auto found = with_present_vault(mount);
      if (mount.point == path || !is_another_vault(path, found)) return found;
    }
    return std::nullopt;
  };
  const auto point = as_mount_point(name);
  if (auto found = find(point)) return *found;
  std::error_code error;
  if (auto found = find(stdfs::canonical(point, error))) return *found;  // a link
  if (const auto vault = Vault::find(name)) {                            // moved since the mount
    auto found = mount_of(*vault);
    if (found || found.error().code == Errc::vault_in_use) return found;
  }
  if (const std::string inside = say_if_inside(name); !inside.empty())
    return fail(Errc::not_mounted, "{}", inside);
  return fail(Errc::not_mounted, "{}: no vault is mounted there, and no such vault is mounted",
              name.string());
}

Result<Vault> find_vault(const stdfs::path& name) {
  auto vault = Vault::find(name);
  const Errc code = vault ? Errc::ok : vault.error().code;
  if (code == Errc::ok || code == Errc::damaged_vault || code == Errc::unsupported) return vault;
  if (const auto mount = find_mount(name)) return Vault::find(mount->vault);
  if (const std::string inside = say_if_inside(name); !inside.empty())
    return fail(Errc::not_a_vault, "{}", inside);
  return vault;
}

}  // namespace s3oram
