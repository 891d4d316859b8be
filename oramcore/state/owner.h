// Whose vault.db it is. The vault.json or vault.key of another vault, or one that somebody has
// edited, is refused by it before it does harm: with other numbers every block looks damaged, and
// what is written with another key is lost once the right one is back.
#pragma once

#include <optional>

#include "oramcore/base/random.h"
#include "oramcore/db/sqlite.h"
#include "oramcore/tree/volume.h"

namespace s3oram {

struct Owner {
  VolumeId volume{};
  VolumeParams params;
  std::optional<Seed> sealing;  // the key of its blocks, if it is known to be the right one
};

/// Refuses to go on with another volume, other numbers or another key than vault.db was made for.
/// What vault.db does not tell, as those of older versions do not, is not compared. Errors:
/// damaged_vault.
Status check_owner(Database& database, const Owner& owner);

/// check_owner(), and has vault.db tell from now on, if it does not yet.
Status keep_owner(Database& database, const Owner& owner);

}  // namespace s3oram
