// Checks a vault's own files, and mends them: vault.key, vault.db and, of a local vault, that the
// servers' stores are there. Asks no server.
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
  std::filesystem::path copy;  // vault.db as it was before the repair; empty: none was made
  bool repaired = false;       // what can be mended has been
  bool unsupported = false;    // something is of a format that this program does not know
  std::uint64_t files = 0, names = 0, blocks = 0;  // that were looked at

  /// Damage that is still there.
  std::size_t left() const;
};

/// Checks; with `repair` also mends what can be mended: the database's rows in one transaction,
/// after a copy of it is safe beside it. A database that SQLite finds damaged is replaced by one
/// with all rows that can be read. `progress` is told what is being done, often.
/// The vault must be locked. `disk` has the key of a sealed vault.db; without it, that is not
/// looked at, which is a finding. Errors are those of doing it, not of what is found: disk_full,
/// ...
Result<VaultReport> check_vault(const Vault& vault, Disk& disk, bool repair,
                                const std::function<void(const std::string&)>& progress);

}  // namespace s3oram
