#include "oramcore/db/known_format.h"

#include "oramcore/base/format_number.h"

namespace s3oram {

Status require_format(Database& database, std::string_view sql, std::int64_t known,
                      std::string_view part) {
  auto row = database.prepare(sql);
  if (!row) return {};
  const auto found = row->step();
  if (!found || !*found || !row->is_integer(0) || row->integer(0) == known) return {};
  return unknown_format(fmt::format("{}{}", database.path(), part), row->integer(0), known);
}

}  // namespace s3oram
