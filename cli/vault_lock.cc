// Waits for a vault that another process uses, and says so.
#include "cli/vault_lock.h"

#include "cli/terminal.h"

namespace s3oram {

Status lock_vault(Vault& vault) {
  Progress progress("waiting until another process has closed " + vault.directory().string());
  return vault.lock_when_left([&] { progress.update(); });
}

}  // namespace s3oram
