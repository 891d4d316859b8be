// Takes a vault's lock, and asks the user until a credential opens its keys.
#include "fused/daemon/unlock_vault.h"

#include <spdlog/spdlog.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "fused/daemon/mounts.h"
#include "fused/tables/metadata.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/vault/advice.h"
#include "oramcore/vault/credential.h"

namespace s3oram {
namespace {

Status lock_vault(Vault& vault) {
  return vault.lock_when_left([&, told = false]() mutable {
    if (!std::exchange(told, true))
      spdlog::info(
          "waiting for another process, perhaps an unmounted daemon that still writes, "
          "to leave the vault {}",
          vault.directory().string());
  });
}

/// Locks the vault and checks its format. Both come before the volume is opened, because opening it
/// already changes the vault and the servers.
Result<Vault> take_vault(const std::filesystem::path& directory) {
  auto vault = Vault::find(directory);
  if (!vault) return vault;
  S3O_TRY(lock_vault(*vault));
  const std::string database = vault->database().string();
  if (vault->config().ready && !std::filesystem::exists(database))
    return fail(advise_on_database({Errc::damaged_vault, database + ": it is gone"}, directory));
  if (auto known = Metadata::require_known_format(database); !known)
    return fail(advise_on_database(std::move(known).error(), directory));
  return vault;
}

/// Returns the content of vault.key, so that a later change can be noticed.
std::optional<Bytes> key_file_of(const Vault& vault) {
  constexpr std::size_t kLargest = 1 << 16;
  auto content = read_small_file(vault.directory() / "vault.key", kLargest);
  return content ? std::optional(std::move(*content)) : std::nullopt;
}

Result<Credential> ask_for_credential(const Vault& vault, const MountCommand& command,
                                      const EarlySecret& early) {
  for (const auto& secret : {command.passphrase.passfile, command.keyfile})
    if (const std::string exposure = exposure_of(secret); !exposure.empty())
      spdlog::warn("{}", exposure);
  return existing_credential(command.passphrase, command.keyfile, vault, early);
}

/// Unlocks a locked vault. `asked` is the content of vault.key when the user was asked for the
/// credential.
Result<VaultKeys> unlock_vault(const Vault& vault, const Credential& credential,
                               const std::optional<Bytes>& asked) {
  auto keys = vault.unlock(credential);
  if (keys || keys.error().code != Errc::wrong_passphrase || key_file_of(vault) == asked)
    return keys;
  return fail(keys.error().code,
              "{}; it was changed while you were being asked: mount the vault again",
              keys.error().message);
}

}  // namespace

Status check_vault(const std::filesystem::path& directory) {
  const auto vault = take_vault(directory);
  return vault ? Status() : Status(fail(vault.error()));
}

Result<VaultKeys> unlock_when_told(const MountCommand& command, const MountRights& rights,
                                   Vault& vault) {
  for (unsigned left =
           credential_tries(command.passphrase, command.keyfile, vault, rights.secret());
       ;) {
    const auto asked = key_file_of(vault);
    S3O_ASSIGN(auto credential, ask_for_credential(vault, command, rights.secret()));
    S3O_ASSIGN(vault, take_vault(rights.vault()));  // again: it may have changed
    auto keys = unlock_vault(vault, credential, asked);
    if (keys || keys.error().code != Errc::wrong_passphrase || --left == 0) return keys;
    std::fputs("s3oramfs: wrong passphrase, try again\n", stderr);
    S3O_ASSIGN(vault, Vault::find(rights.vault()));  // gives up the lock
  }
}

}  // namespace s3oram
