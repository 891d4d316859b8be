// s3oramfs security: shows how far a volume's servers are trusted, and changes it.
#include <iostream>

#include "cli/command.h"
#include "cli/mount_table.h"
#include "cli/vault_argument.h"
#include "cli/vault_lock.h"
#include "cli/vault_owner.h"
#include "oramcore/base/human.h"

namespace s3oram {

Status run_security(const Args& args) {
  CLI::App app("Shows or changes whether servers are trusted to follow the protocol.",
               "s3oramfs security");
  std::string name, kind;
  app.add_option("VAULT", name, "The vault; to set KIND, it must not be mounted")
      ->required()
      ->transform(by_name());
  app.add_option("KIND", kind, "malicious or honest-but-curious; used at next mount");
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (!parsed) return {};
  Security security{};
  if (!kind.empty()) S3O_TRY(take_name(kSecurities, "KIND", kind, security));
  S3O_TRY(become_owner(name));
  S3O_ASSIGN(auto vault, find_vault(name));
  const Security present = vault.config().params.assumed();
  if (kind.empty() || security == present) {
    std::cout << name_of(kSecurities, present) << "\n";
    return {};
  }
  S3O_TRY(lock_vault(vault));
  S3O_TRY(vault.set_security(security));
  std::cout << "From the next mount on, the servers of " << vault.directory().string()
            << " are assumed to be " << name_of(kSecurities, security) << ".\n";
  if (security == Security::malicious)
    std::cout << "They must run this version of s3oramfs-serverd, or a newer one.\n";
  if (!vault.config().local)
    std::cout << "Write its recovery file again: s3oramfs backup --keys FILE "
              << shell_word(vault.directory()) << "\n";
  return {};
}

}  // namespace s3oram
