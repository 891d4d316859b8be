// Asks SQLite for its own check of a file.
#include "oramcore/db/integrity.h"

#include <algorithm>

namespace s3oram {

Result<std::string> find_damage(Database& database) {
  S3O_ASSIGN(auto rows, database.prepare("PRAGMA integrity_check(3)"));
  std::string problems;
  while (true) {
    auto more = rows.step();
    if (!more) return problems.empty() ? more.error().message : problems;
    if (!*more) return problems == "ok" ? std::string() : problems;
    problems += (problems.empty() ? "" : "; ") + rows.text(0);
    std::ranges::replace(problems, '\n', ' ');
  }
}

}  // namespace s3oram
