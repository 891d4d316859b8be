#include "cli/vault_lock.h"

#include "cli/terminal.h"
#include "oramcore/base/identity.h"

namespace s3oram {

Status lock_vault(Vault& vault) {
  Progress progress("waiting until another process leaves " + vault.directory().string());
  return vault.lock_when_left([&] { progress.update(); });
}

Status become_owner(const Vault& vault) {
  auto identity = Identity::become_owner_of(vault.directory());
  if (!identity) return fail(std::move(identity).error());
  return identity->settle();
}

}  // namespace s3oram
