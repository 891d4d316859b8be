// Records in vault.db to which vault it belongs. By this a vault.json or vault.key that is another
// vault's, or was edited, is refused before it does harm: with other numbers every block looks
// damaged, and what is written with another key is lost once the right one is back.
#pragma once

#include <filesystem>
#include <optional>

#include "oramcore/base/random.h"
#include "oramcore/db/sqlite.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

struct Owner {
  VolumeId volume{};
  VolumeParams params;
  std::optional<Seed> sealing;  // the key of its blocks, if it is known to be the right one
};

/// Returns why vault.db is not for this volume, these numbers or this key, and what to do; empty if
/// it may be. A key that vault.db does not record (older versions, and restore, do not know it) is
/// not compared.
Result<std::string> other_owner(Database& database, const Owner& owner);

/// Returns whether the database records exactly this owner (but for a key that it does not record).
Result<bool> is_owned_by(Database& database, const Owner& owner);

/// Checks that the pages of a sealed vault.db have this key, which comes from vault.key. A plain
/// vault.db passes. Errors: damaged_vault, with what to do.
Status check_page_key(const std::filesystem::path& database, const PageKey& key);

/// Records the owner in vault.db, if it is not recorded yet. To be called in a transaction, and
/// only once it is certain that they belong together.
Status keep_owner(Database& database, const Owner& owner);

}  // namespace s3oram
