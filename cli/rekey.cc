// s3oramfs rekey: gives this client a new key for its servers.
//
// Servers know the new key only after someone has told them. So it waits in the vault, beside the
// key in use, until a session with all servers has been opened with it. Rekey can be run as often
// as needed.
#include <iostream>

#include "cli/command.h"
#include "cli/credential_options.h"
#include "cli/mount_table.h"
#include "cli/server_option.h"
#include "cli/vault_argument.h"
#include "cli/vault_lock.h"
#include "cli/vault_owner.h"
#include "cli/volume_options.h"
#include "oramcore/base/human.h"

namespace s3oram {
namespace {

struct RekeyOptions {
  std::string vault;
  Patience patience;
  CredentialOptions credential;
};

Result<bool> parse_options(const Args& args, RekeyOptions& options) {
  CLI::App app("Changes the key that servers know a vault by, once all of them accept it.",
               "s3oramfs rekey");
  add_vault(app, "VAULT", options.vault, "The vault", &options.credential);
  options.credential.add_to(app);
  options.patience.add_to(app);
  return parse(app, args);
}

// Checks that all servers admit the key by opening a session, because nothing else shows that.
Status try_key(Vault& vault, const VaultKeys& keys, const RekeyOptions& options,
               Progress& progress) {
  S3O_ASSIGN(const auto how, volume_options(vault, options.patience.timeout, progress));
  S3O_ASSIGN(auto volume, Volume::open(vault, keys, how));
  return volume->close();
}

Status wait_for_servers(Vault& vault, const VaultKeys& keys, const RekeyOptions& options) {
  Progress progress("opening a session with the new key");
  Status opened =
      until_admitted(options.patience, [&] { return try_key(vault, keys, options, progress); });
  if (opened || opened.error().code != Errc::refused_key) return opened;
  return fail(Errc::refused_key,
              "{}; the previous key is still in use: once all servers admit the new one, run the "
              "same rekey again",
              opened.error().message);
}

}  // namespace

Status run_rekey(const Args& args) {
  RekeyOptions options;
  S3O_ASSIGN(auto parsed, parse_options(args, options));
  if (!parsed) return {};
  S3O_TRY(become_owner(options.vault, [&] { return options.credential.read_early(); }));
  S3O_ASSIGN(auto vault, find_vault(options.vault));
  if (vault.config().source)
    return fail(Errc::usage,
                "{}: blocks are moving from other servers, which would not know the new key; wait "
                "for the end (s3oramfs migrate {})",
                vault.directory().string(), shell_word(vault.directory()));
  if (vault.config().local)
    return fail(Errc::usage, "{}: its servers run on this machine, and need no keys",
                vault.directory().string());
  S3O_TRY(vault.require_ready());
  S3O_ASSIGN(const auto opened, unlock_vault(options.credential, vault));
  const Credential& known = opened.credential;
  SystemRandom random;
  S3O_ASSIGN(auto next, vault.next_client_key(known, random));
  show_client_key("This client's new key is", next);
  if (Status locked = lock_vault(vault); !locked)
    return fail(locked.error().code,
                "{}; the new key waits: once all servers admit it, unmount, and run the same rekey "
                "again",
                locked.error().message);
  S3O_ASSIGN(auto keys, vault.unlock(known, ClientKey::next));
  S3O_TRY(wait_for_servers(vault, keys, options));
  S3O_ASSIGN(auto used, vault.use_next_client_key(known));
  std::cout << "All servers admit the new key, and it is in use. Revoke the previous one at each:\n"
               "  s3oramfs-serverd revoke --store DIR "
            << to_text(used.former) << "\n";
  return {};
}

}  // namespace s3oram
