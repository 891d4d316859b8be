// Checks the format of a database before anything is written to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "oramcore/db/sqlite.h"

namespace s3oram {

/// Succeeds if the number that `sql` selects is `known` or, if `oldest` is given, from `oldest` to
/// `known`. `part` names the part of the database, for messages. A database without such a number
/// (empty or damaged) passes, because its reader reports what is wrong. Errors: unsupported.
Status require_format(Database& database, std::string_view sql, std::int64_t known,
                      std::string_view part = "", std::optional<std::int64_t> oldest = {});

}  // namespace s3oram
