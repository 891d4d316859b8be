// s3oramfs passwd: changes, adds, removes and lists what opens a vault. The vault may be mounted.
#include <iostream>

#include "cli/command.h"
#include "cli/credential_options.h"
#include "cli/mount_table.h"
#include "cli/vault_argument.h"
#include "cli/vault_owner.h"
#include "oramcore/base/human.h"
#include "oramcore/vault/vault.h"

namespace s3oram {
namespace {

struct PasswdOptions {
  std::string vault;
  bool add = false, list = false;
  unsigned remove = 0;  // number of a slot; 0 if none
  CredentialOptions known, fresh;
};

Result<bool> parse_options(const Args& args, PasswdOptions& options) {
  CLI::App app("Changes the passphrase or key file of a vault, or adds or removes one.",
               "s3oramfs passwd");
  add_vault(app, "VAULT", options.vault, "The vault, mounted or not", &options.known);
  auto* add = app.add_flag("--add", options.add, "Add another passphrase or key file");
  auto* remove = app.add_option("--remove", options.remove, "Remove this slot")
                     ->type_name("SLOT")
                     ->check(CLI::Range(1U, static_cast<unsigned>(255)))
                     ->excludes(add);
  auto* list = app.add_flag("--list", options.list, "List the slots: each passphrase or key file")
                   ->excludes(add)
                   ->excludes(remove);
  options.known.add_to(app);
  options.fresh.add_new_to(app, "new-");
  for (CLI::Option* nothing_new : {list, remove})
    for (const char* fresh :
         {"--new-passfile", "--new-passprog", "--new-keyfile", "--no-passphrase"})
      nothing_new->excludes(app.get_option(fresh));
  return parse(app, args);
}

std::string describe(const KeyWrap& wrap) {
  switch (wrap.kind) {
    case KeyWrap::Kind::plain:
      return "nothing: the key is unprotected";
    case KeyWrap::Kind::key_file:
      return "a key file";
    case KeyWrap::Kind::passphrase:
      break;
  }
  return fmt::format("a passphrase (Argon2id, {} passes over {})", wrap.limits.passes,
                     human_size(wrap.limits.memory));
}

Status list(const Vault& vault) {
  S3O_ASSIGN(auto slots, vault.slots());
  for (const Vault::Slot& slot : slots)
    std::cout << fmt::format("slot {}  {}\n", slot.number, describe(slot.wrap));
  return {};
}

Status remove(Vault& vault, unsigned slot, const Credential& remaining) {
  S3O_TRY(vault.remove_slot(slot, remaining));
  std::cout << fmt::format("Slot {} is removed. Older copies of {} still open as before.\n", slot,
                           (vault.directory() / "vault.key").string());
  return {};
}

Status set(Vault& vault, PasswdOptions& options, const Credential& known) {
  S3O_ASSIGN(auto fresh, NewCredential::make(options.fresh));
  SystemRandom random;
  auto slot = options.add ? vault.add_credential(known, fresh.get(), random)
                          : vault.change_credential(known, fresh.get(), random);
  if (!slot) {
    // After an error of the disk, the new credential may be the one that opens the vault from now
    // on.
    if (!vault.unlock(fresh.get())) S3O_TRY(fresh.undo());
    return fail(std::move(slot).error());
  }
  if (options.add)
    std::cout << fmt::format("Slot {} now also opens {}.\n", *slot, vault.directory().string());
  else
    std::cout << fmt::format("Slot {} is changed. Older copies of {} still open as before.\n",
                             *slot, (vault.directory() / "vault.key").string());
  return {};
}

}  // namespace

Status run_passwd(const Args& args) {
  PasswdOptions options;
  S3O_ASSIGN(auto parsed, parse_options(args, options));
  if (!parsed) return {};
  const auto read_secrets = [&]() -> Status {
    if (options.list) return {};
    S3O_TRY(options.known.read_early());
    return options.remove > 0 ? Status() : options.fresh.prepare_new();
  };
  S3O_TRY(become_owner(options.vault, read_secrets));
  S3O_ASSIGN(auto vault, find_vault(options.vault));
  if (options.list) return list(vault);
  // This comes before the user is asked for a new credential.
  S3O_ASSIGN(const auto opened, unlock_vault(options.known, vault));
  if (options.remove > 0) return remove(vault, options.remove, opened.credential);
  return set(vault, options, opened.credential);
}

}  // namespace s3oram
