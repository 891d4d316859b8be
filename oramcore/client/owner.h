// Records in vault.db to which vault it belongs. A vault.json or vault.key that belongs to another
// vault, or was edited, is thus refused before it does harm. With other numbers every block would
// look damaged, and whatever is written with another key is lost once the right one is back.
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
  std::optional<Seed> sealing;  // the key that seals its blocks, if it is known to be right
};

/// Returns why vault.db does not belong to this volume, these numbers or this key, and what to do;
/// empty if it may. If vault.db does not record the key (older versions, and restore, do not know
/// it), the key is not compared.
Result<std::string> other_owner(Database& database, const Owner& owner);

/// Returns whether the database records exactly this owner (except for a key that is not recorded).
Result<bool> is_owned_by(Database& database, const Owner& owner);

/// Checks that the pages of a sealed vault.db have this key, which comes from vault.key. A plain
/// vault.db passes the check. Errors: damaged_vault, with what to do.
Status check_page_key(const std::filesystem::path& database, const PageKey& key);

/// Records the owner in vault.db, if none is recorded yet. Must be called in a transaction, and
/// only once it is certain that the two belong together.
Status keep_owner(Database& database, const Owner& owner);

}  // namespace s3oram
