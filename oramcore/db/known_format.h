// Asked of a database before anything is written to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "oramcore/db/sqlite.h"

namespace s3oram {

/// Whether the number that `sql` selects is `known`, or `oldest` to `known` if that is given;
/// `part` names whose it is, for messages. A database that has none (an empty one, or a damaged
/// one) passes: who reads it will tell. Errors: unsupported.
Status require_format(Database& database, std::string_view sql, std::int64_t known,
                      std::string_view part = "", std::optional<std::int64_t> oldest = {});

}  // namespace s3oram
