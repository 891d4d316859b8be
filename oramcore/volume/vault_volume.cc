// Checks a vault before its volume is used.
#include "oramcore/volume/vault_volume.h"

#include <filesystem>

#include "oramcore/base/human.h"
#include "oramcore/client/owner.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/vault/advice.h"

namespace s3oram {

const VolumeKind& kind_of(const Vault& vault) { return volume_kind(vault.config().params); }

ClientVolume client_volume(const Vault& vault, const VaultKeys& keys) {
  return {vault.config().volume, vault.config().params, keys.of(vault.config()).sealing,
          vault.directory()};
}

std::string peer_text(Party server, const ServerAddress& address) {
  return fmt::format("{}={},{}", server, address.host_port, to_text(address.key));
}

Status check_owner(const Vault& vault, const VaultKeys& keys) {
  SealedDisk disk(keys.pages);
  // Users refer to the vault, not to the directory of a source in it.
  const std::filesystem::path directory =
      vault.is_source() ? vault.directory().parent_path() : vault.directory();
  if (std::error_code error;
      vault.is_source() && !std::filesystem::exists(vault.database(), error) && !error)
    return fail(Errc::damaged_vault, "{} is gone: s3oramfs restore --force {} rebuilds it",
                vault.database().string(), shell_word(directory));
  S3O_TRY(check_page_key(vault.database(), *disk.page_key()));
  auto database = Database::open(vault.database().string(), Database::Mode::read_only, disk);
  if (!database) return fail(advise_on_database(database.error(), directory));
  const auto other = other_owner(
      *database, {vault.config().volume, vault.config().params, keys.of(vault.config()).sealing});
  if (!other) return fail(advise_on_database(other.error(), directory));
  if (!other->empty()) return fail(Errc::damaged_vault, "{}", *other);
  return {};
}

Status check_usable(const Vault& vault, const VaultKeys& keys) {
  S3O_TRY(vault.require_ready());
  if (std::error_code error; !std::filesystem::exists(vault.database(), error))
    return fail(Errc::damaged_vault, "{} is gone: s3oramfs restore {} rebuilds it",
                vault.database().string(), shell_word(vault.directory()));
  return check_owner(vault, keys);
}

Status check_replaceable(const Vault& vault, Party server) {
  const std::string directory = vault.directory().string();
  const unsigned count = vault.config().params.scheme.servers;
  if (vault.config().local)
    return fail(
        Errc::usage,
        "{}: its servers run on this machine: s3oramfs repair --server N recreates a lost store",
        directory);
  if (server < 1 || server > count)
    return fail(Errc::usage, "{}: there is no server {}, but {} from 1 on", directory, server,
                count);
  if (!kind_of(vault).can_reenrol(vault.config().params))
    return fail(Errc::unsupported,
                "{}: its one server has the only copy of everything; stop it, copy its whole store "
                "to the new machine, start it there, and run s3oramfs server {} 1 HOST:PORT,KEY",
                directory, shell_word(vault.directory()));
  return {};
}

Status check_places(const Vault& vault, Disk& disk) {
  S3O_ASSIGN(auto database,
             Database::open(vault.database().string(), Database::Mode::read_only, disk));
  const auto report = kind_of(vault).check(database, vault.config().params);
  for (const Finding& finding : report->findings)
    if (!finding.harmless)
      return fail(Errc::damaged_vault,
                  "{}: {}: while the vault moves to other servers, it cannot be mounted with that "
                  "damage: s3oramfs restore --force {}",
                  finding.where, finding.what, shell_word(vault.directory()));
  return {};
}

}  // namespace s3oram
