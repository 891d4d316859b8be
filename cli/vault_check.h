// Checks a vault's own files, and mends them: vault.key, vault.db and, for a local vault, whether
// the servers' stores exist. Contacts no server.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "oramcore/base/disk.h"
#include "oramcore/db/finding.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

struct VaultReport {
  Findings findings;
  std::filesystem::path copy;  // vault.db as it was before the repair; empty if not copied
  bool repaired = false;       // everything that can be mended has been
  bool unsupported = false;    // something has a format that this program does not know
  std::uint64_t files = 0, names = 0, blocks = 0;  // how many were checked

  /// Returns how many findings of damage remain.
  std::size_t left() const;
};

/// Checks the vault; with `repair`, also mends what can be mended. It mends the database's rows in
/// one transaction, after it has stored a copy of the database beside it. A database that SQLite
/// finds damaged is replaced by one with all rows that can be read. Calls `progress` often, with
/// the current step. The vault must be locked. `disk` has the key of a sealed vault.db; without the
/// key the file is not checked, which is a finding. Errors: failures of the check itself, such as
/// disk_full, but not what it finds.
Result<VaultReport> check_vault(const Vault& vault, Disk& disk, bool repair,
                                const std::function<void(const std::string&)>& progress);

}  // namespace s3oram
