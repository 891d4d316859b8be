// Compares a database's format number with the formats that this program knows.
#include "oramcore/db/known_format.h"

#include "oramcore/base/format_number.h"

namespace s3oram {

Status require_format(Database& database, std::string_view sql, std::int64_t known,
                      std::string_view part, std::optional<std::int64_t> oldest) {
  auto row = database.prepare(sql);
  if (!row) return {};
  const auto found = row->step();
  if (!found || !*found || !row->is_integer(0)) return {};
  const std::int64_t format = row->integer(0);
  if (format >= oldest.value_or(known) && format <= known) return {};
  return unknown_format(fmt::format("{}{}", database.path(), part), format, known);
}

}  // namespace s3oram
