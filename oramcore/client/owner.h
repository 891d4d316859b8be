// Whose vault.db it is. The vault.json or vault.key of another vault, or one that somebody has
// edited, is refused by it before it does harm: with other numbers every block looks damaged, and
// what is written with another key is lost once the right one is back.
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

/// Why vault.db is not for this volume, these numbers or this key, and what to do; empty if it may
/// be. What it does not tell (older versions, and restore, do not know the key) is not compared.
Result<std::string> other_owner(Database& database, const Owner& owner);

/// Whether the pages of a sealed vault.db are of this key, which comes from vault.key. True also of
/// what is not sealed. Errors: damaged_vault, with what to do.
Status check_page_key(const std::filesystem::path& database, const PageKey& key);

/// Has vault.db tell from now on, if it does not yet. In a transaction, and not before it is sure
/// that they belong together.
Status keep_owner(Database& database, const Owner& owner);

}  // namespace s3oram
